// Follows a run while it goes on: the driver sends its numbers every second, its charts and its
// failures as often as they cost little, and at the end the page that stays.
"use strict";
(() => {
  const TRIES = 5                    // to reach a driver that does not answer
  const place = (name) => document.getElementById(name)
  const events = new EventSource(`events${location.search}`)
  let failed = 0

  function listen(name, act) { events.addEventListener(name, (event) => act(event.data)) }

  listen("progress", (said) => {
    const {words, done, tasks} = JSON.parse(said)
    failed = 0
    place("progress").textContent = words
    place("share").max = Math.max(tasks, 1)
    place("share").value = done
  })

  listen("failures", (said) => { place("failures").innerHTML = JSON.parse(said) })

  listen("charts", (said) => charts.take(said))

  // The page that stays takes the place of this one; without it this one says what to do.
  listen("end", (said) => {
    const {page, words} = JSON.parse(said)
    events.close()
    if (page) {
      document.open()
      document.write(page)
      document.close()
    }
    const note = document.createElement("p")
    note.className = "about"
    note.id = "ended"
    note.textContent = words
    document.querySelector("h1").after(note)
  })

  events.addEventListener("error", () => {
    failed += 1
    if (failed > 1) place("progress").textContent = place("progress").dataset.silent
    if (failed == TRIES) events.close()
  })
})()
