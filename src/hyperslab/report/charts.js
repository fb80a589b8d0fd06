// The charts of a run on one axis of time: a lane of bars for every slot, and curves below.
// What they show comes as JSON from hyperslab.report.gantt and hyperslab.report.curves; times are
// seconds since the engine was ready. The page runs this once its data and places are there.
"use strict";
(() => {
  const INK = "#4a5160", GRID = "#eceef1", AXIS = "#c9ced6", LIGHT = "rgba(255, 255, 255, 0.3)"
  const TOP = 6, RIGHT = 12, BOTTOM = 24, LANE = 26, CURVE_HEIGHT = 150
  const LANES_BETWEEN = [60, 760]    // pixels of all lanes together
  const BAR = 0.72                   // of its lane
  const THINNEST = 0.5               // pixels of a bar: a short task alone stays visible
  const REACH = 4                    // pixels around the pointer in which a bar is found
  const FADED = 0.15                 // opacity of the bars of other blocks while one is picked
  const SHORTEST = 1e-8              // seconds that a zoom may show
  const NAMED_LANES = 50
  const ARRAYS = {
    float64: Float64Array, float32: Float32Array, int32: Int32Array, uint16: Uint16Array,
  }

  let data = JSON.parse(document.getElementById("charts-data").textContent, unpacked)
  const font = `12px ${getComputedStyle(document.body).fontFamily}`

  function unpacked(_, value) {
    if (value === null || typeof value != "object" || !("base64" in value)) return value
    const text = atob(value.base64)
    const bytes = new Uint8Array(text.length)
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i)
    return new ARRAYS[value.dtype](bytes.buffer)
  }

  // Words and numbers

  function element(tag, name, text = "") {
    const made = document.createElement(tag)
    made.className = name
    made.textContent = text
    return made
  }

  const show_seconds = (value) => `${String(Number(value.toPrecision(9))).replace("-", "\u2212")} s`
  const three_digits = (value) => value < 100 ? value.toPrecision(3) : String(Math.round(value))
  const show_ms = (value) => isNaN(value) ? "unknown" : `${three_digits(value)} ms`

  function show_bytes(value) {
    let size = value, prefix = 0
    while (size >= 999.5 && prefix < 6) { size /= 1000; prefix += 1 }
    const unit = ["", "k", "M", "G", "T", "P", "E"][prefix] + "B"
    return `${prefix == 0 ? String(size) : size.toPrecision(3)} ${unit}`
  }

  function show_fixed(value, digits) {
    const fixed = {minimumFractionDigits: digits, maximumFractionDigits: digits}
    return value.toLocaleString("en", fixed)
  }

  // Round numbers 1, 2 or 5 times a power of ten apart, about as many as asked for.
  function ticks(low, high, wanted) {
    const rough = (high - low) / Math.max(wanted, 1)
    const power = 10 ** Math.floor(Math.log10(rough))
    const step = power * [1, 2, 5, 10].find((factor) => power * factor >= rough)
    const found = []
    for (let n = Math.ceil(low / step); n * step <= high; n++) found.push(n * step)
    return found
  }

  // What all charts show of the time, and what a drag in them does

  class View {
    constructor(start, end) {
      this.bounds = [start, end]
      this.charts = []
      this.tool = matchMedia("(pointer: coarse)").matches ? "" : "zoom"
      this.wheel = false
      this.is_idle = false
      this.reset()
    }

    reset() { this.show(...this.bounds) }

    // Other bounds: what shows all goes on to do so, a zoom stays where it is.
    bind(start, end) {
      const shows_all = this.start == this.bounds[0] && this.end == this.bounds[1]
      this.bounds = [start, end]
      if (shows_all) this.reset()
      else this.show(this.start, this.end)
    }

    show(start, end) {
      const [first, last] = this.bounds
      const length = Math.min(Math.max(end - start, SHORTEST), last - first)
      this.start = Math.min(Math.max(start, first), last - length)
      this.end = this.start + length
      this.redraw()
    }

    zoom(middle, factor) {
      this.show(middle - (middle - this.start) * factor, middle + (this.end - middle) * factor)
    }

    use(tool) {
      this.tool = this.tool == tool ? "" : tool
      for (const chart of this.charts) chart.follow_tool()
    }

    redraw() {
      if (this.waiting) return
      this.waiting = true
      this.is_idle = false
      requestAnimationFrame(() => {
        this.waiting = false
        for (const chart of this.charts) chart.draw()
        this.is_idle = true
      })
    }
  }

  // Numbers of what the pointer is at, beside it

  const tip = document.body.appendChild(element("dl", "tip"))

  function show_tip(event, rows) {
    tip.replaceChildren()
    for (const [label, value] of rows) {
      tip.append(element("dt", "", label), element("dd", "", value))
    }
    tip.style.display = "grid"
    const {width, height} = tip.getBoundingClientRect()
    const right = event.clientX + 16, below = event.clientY + 16
    const fits_right = right + width < innerWidth, fits_below = below + height < innerHeight
    tip.style.left = `${Math.max(fits_right ? right : event.clientX - width - 12, 4)}px`
    tip.style.top = `${Math.max(fits_below ? below : event.clientY - height - 12, 4)}px`
  }

  function hide_tip() { tip.style.display = "none" }

  // A canvas with the axis of time, and one above it for what follows the pointer

  class Chart {
    constructor(place, view, height, description) {
      this.view = view
      this.place = document.getElementById(place)
      this.plot = this.place.appendChild(element("div", "plot"))
      this.canvas = this.plot.appendChild(element("canvas", ""))
      this.cover = this.plot.appendChild(element("canvas", "cover"))
      this.canvas.setAttribute("role", "img")
      this.canvas.setAttribute("aria-label", description)
      this.use_height(height)
      this.drag = null
      this.listen()
      view.charts.push(this)
      this.follow_tool()
      new ResizeObserver(() => view.redraw()).observe(this.plot)
    }

    use_height(height) {
      this.height = height
      this.plot.style.height = `${height}px`
      this.bottom = height - BOTTOM
    }

    // Where the frame is, in pixels; asked for once a drawing, for it makes the browser lay out.
    measure() {
      this.left = this.view.margin
      this.right = Math.max(this.plot.clientWidth - RIGHT, this.left + 1)
    }

    x(seconds) {
      const {start, end} = this.view
      return this.left + (seconds - start) / (end - start) * (this.right - this.left)
    }

    // A place in the frame; what lies far outside is not farther than the canvas can draw.
    x_within(seconds) { return Math.min(Math.max(this.x(seconds), this.left - 9), this.right + 9) }

    seconds(x) {
      const {start, end} = this.view
      return start + (x - this.left) / (this.right - this.left) * (end - start)
    }

    follow_tool() { this.cover.style.touchAction = this.view.tool ? "pan-y" : "auto" }

    listen() {
      const {cover, view} = this
      cover.addEventListener("pointerdown", (event) => this.begin_drag(event))
      cover.addEventListener("pointermove", (event) => this.move(event))
      cover.addEventListener("pointerup", (event) => this.end_drag(event))
      cover.addEventListener("pointercancel", () => { this.drag = null })
      cover.addEventListener("pointerleave", () => this.leave())
      cover.addEventListener("click", (event) => this.click(event))
      cover.addEventListener("wheel", (event) => {
        if (!view.wheel) return
        event.preventDefault()
        view.zoom(this.seconds(event.offsetX), 1.2 ** Math.sign(event.deltaY))
      })
    }

    begin_drag(event) {
      if (event.button != 0 || !this.view.tool) return
      const {start, end} = this.view
      this.drag = {from: event.offsetX, to: event.offsetX, start, end, moved: false}
      this.cover.setPointerCapture(event.pointerId)
    }

    move(event) {
      const {drag, view} = this
      if (!drag) return this.hover(event)
      drag.to = event.offsetX
      drag.moved ||= Math.abs(drag.to - drag.from) > 3
      if (view.tool == "move") {
        const by = (drag.to - drag.from) / (this.right - this.left) * (drag.end - drag.start)
        view.show(drag.start - by, drag.end - by)
      } else {
        this.light_between(...this.dragged(), "rgba(0, 114, 178, 0.15)")
      }
    }

    dragged() {
      const ends = [this.drag.from, this.drag.to].sort((a, b) => a - b)
      return ends.map((x) => Math.min(Math.max(x, this.left), this.right))
    }

    end_drag() {
      const {drag, view} = this
      if (!drag) return
      const [from, to] = this.dragged()
      this.was_dragged = drag.moved
      this.drag = null
      this.leave()
      if (drag.moved && view.tool == "zoom") view.show(this.seconds(from), this.seconds(to))
    }

    click(event) {
      if (!this.was_dragged) this.pick(event.offsetX, event.offsetY)
      this.was_dragged = false
    }

    pick() {}

    leave() {
      hide_tip()
      this.light(() => {})
    }

    // Draw something that goes with the next move of the pointer.
    light(draw, colour = LIGHT) {
      const pen = this.pen_of(this.cover)
      pen.fillStyle = colour
      pen.save()
      this.clip(pen)
      draw(pen)
      pen.restore()
    }

    light_between(from, to, colour) {
      this.light((pen) => pen.fillRect(from, TOP, to - from, this.bottom), colour)
    }

    pen_of(canvas) {
      const scale = devicePixelRatio || 1, width = this.plot.clientWidth
      const pen = canvas.getContext("2d")
      const [across, down] = [Math.round(width * scale), Math.round(this.height * scale)]
      if (canvas.width != across) canvas.width = across
      if (canvas.height != down) canvas.height = down
      pen.setTransform(scale, 0, 0, scale, 0, 0)
      pen.clearRect(0, 0, width, this.height)
      pen.font = font
      return pen
    }

    clip(pen) {
      pen.beginPath()
      pen.rect(this.left, TOP, this.right - this.left, this.bottom - TOP)
      pen.clip()
    }

    draw() {
      this.measure()
      const pen = this.pen_of(this.canvas)
      pen.save()
      this.clip(pen)
      this.draw_time(pen)
      this.draw_data(pen)
      pen.restore()
      this.draw_axes(pen)
    }

    draw_time(pen) {
      pen.fillStyle = data.startup_colour
      const start = this.x_within(-data.gantt.startup_s)
      pen.fillRect(start, TOP, this.x_within(0) - start, this.bottom - TOP)
      for (const tick of this.time_ticks()) {
        this.line(pen, this.x(tick), TOP, this.x(tick), this.bottom, GRID)
      }
    }

    time_ticks() { return ticks(this.view.start, this.view.end, (this.right - this.left) / 70) }

    // Names of times, but for those that would run into the one before, or out of the chart.
    name_times(pen) {
      let free = 0
      for (const tick of this.time_ticks()) {
        const x = this.x(tick), half = pen.measureText(show_seconds(tick)).width / 2
        if (x - half < free || x + half > this.right + RIGHT) continue
        pen.fillText(show_seconds(tick), x, this.bottom + 7)
        free = x + half + 8
      }
    }

    line(pen, x0, y0, x1, y1, colour) {
      pen.strokeStyle = colour
      pen.lineWidth = 1
      pen.beginPath()
      pen.moveTo(x0, y0)
      pen.lineTo(x1, y1)
      pen.stroke()
    }

    draw_axes(pen) {
      this.line(pen, this.left, this.bottom, this.right, this.bottom, AXIS)
      this.line(pen, this.left, TOP, this.left, this.bottom, AXIS)
      pen.fillStyle = INK
      pen.textAlign = "center"
      pen.textBaseline = "top"
      this.name_times(pen)
      pen.textAlign = "right"
      pen.textBaseline = "middle"
      this.draw_values(pen)
    }
  }

  // Every phase of every task

  class Gantt extends Chart {
    constructor(place, view) {
      const {slots} = data.gantt
      super(place, view, height_of(slots), `phases of tasks over time in ${slots.length} slots`)
      this.bars = []
      this.picked = null
      this.hatch = hatch(data.lost_colour)
      this.take(data.gantt)
    }

    // Show these bars; what was hidden or picked stays so.
    take({slots, labels, bars}) {
      const hidden = this.bars.filter((each) => !each.is_visible).map((each) => each.legend)
      this.slots = slots
      this.labels = labels
      this.bars = bars.map((each) => ({...each, is_visible: !hidden.includes(each.legend)}))
      this.use_height(height_of(slots))
      this.mark_picked()
    }

    // Hide the bars that have this name in the legend, or show them again; says which.
    toggle(name) {
      const own = this.bars.filter((bars) => bars.legend == name)
      for (const bars of own) bars.is_visible = !bars.is_visible
      return own[0].is_visible
    }

    // Pixels that the longest name of a slot needs; on a narrow page names are cut.
    margin() {
      const pen = this.canvas.getContext("2d")
      pen.font = font
      const widest = Math.max(46, ...this.slots.map((slot) => pen.measureText(slot).width))
      return Math.min(widest + 12, Math.max(this.plot.clientWidth * 0.35, 58))
    }

    get pitch() { return (this.bottom - TOP) / Math.max(this.slots.length, 1) }
    y(lane) { return TOP + (lane + 0.5) * this.pitch }
    lane_at(y) { return Math.floor((y - TOP) / this.pitch) }

    measure() {
      this.view.margin = this.margin()
      super.measure()
    }

    draw_data(pen) {
      const {shades} = data.gantt
      pen.fillStyle = data.short_colour
      if (shades) for (let i = 0; i < shades.lane.length; i++) this.fill(pen, shades, i)
      for (const bars of this.bars) if (bars.is_visible) this.draw_bars(pen, bars)
      pen.globalAlpha = 1
    }

    draw_bars(pen, bars) {
      const {left, right, picked} = bars
      const {start, end} = this.view
      pen.fillStyle = bars.colour
      pen.globalAlpha = picked ? FADED : 1
      for (let i = 0; i < left.length; i++) {
        if (right[i] < start || left[i] > end || (picked && picked[i])) continue
        bars.is_lost ? this.fill_lost(pen, bars, i) : this.fill(pen, bars, i)
      }
      pen.globalAlpha = 1
      for (let i = 0; picked && i < left.length; i++) {
        if (!picked[i]) continue
        bars.is_lost ? this.fill_lost(pen, bars, i) : this.fill(pen, bars, i)
      }
    }

    box(bars, i) {
      const x = this.x_within(bars.left[i]), height = BAR * this.pitch
      const width = Math.max(this.x_within(bars.right[i]) - x, THINNEST)
      return [x, this.y(bars.lane[i]) - height / 2, width, height]
    }

    fill(pen, bars, i) { pen.fillRect(...this.box(bars, i)) }

    fill_lost(pen, bars, i) {
      const box = this.box(bars, i)
      pen.fillStyle = bars.colour
      pen.fillRect(...box)
      pen.fillStyle = this.hatch
      pen.fillRect(...box)
      pen.strokeStyle = data.lost_colour
      pen.lineWidth = 1.5
      pen.strokeRect(...box)
    }

    draw_values(pen) {
      const step = Math.ceil(this.slots.length / NAMED_LANES) || 1
      for (let lane = 0; lane < this.slots.length; lane += step) {
        pen.fillText(shortened(pen, this.slots[lane], this.left - 10), this.left - 6, this.y(lane))
      }
    }

    // Bars that a place lies in; else the nearest within reach: most bars of a long run are thin.
    found(x, y) {
      const lane = this.lane_at(y)
      if (Math.abs(y - this.y(lane)) > BAR / 2 * this.pitch) return []
      const at = this.seconds(x), inside = []
      let nearest = this.seconds(x + REACH) - at, near = []
      for (const bars of this.bars) {
        const {left, right, lane: lanes} = bars
        for (let i = 0; bars.is_visible && i < left.length; i++) {
          if (lanes[i] != lane) continue
          const distance = Math.max(left[i] - at, at - right[i], 0)
          if (distance == 0) inside.push([bars, i])
          else if (distance < nearest) { nearest = distance; near = [[bars, i]] }
        }
      }
      return inside.length ? inside : near
    }

    hover(event) {
      const found = this.found(event.offsetX, event.offsetY)
      this.light((pen) => { for (const [bars, i] of found) this.fill(pen, bars, i) })
      if (found.length) show_tip(event, this.told(...found.at(-1)))
      else hide_tip()
    }

    told(bars, i) {
      return [
        ["task", this.task_words(bars.task[i])],
        ["attempt", String(bars.attempt[i])],
        ["phase", bars.name],
        ["bytes", show_bytes(bars.nbytes[i])],
        ["duration", show_ms(duration_ms(bars, i))],
        ["CPU time", show_ms(bars.cpu_ms[i])],
        ["run-queue wait", show_ms(bars.runq_ms[i])],
      ]
    }

    task_words(task) {
      if (task < 0) return "none: work of the engine for many"
      return task in this.labels ? `${task}: ${this.labels[task]}` : String(task)
    }

    block(task) { return task in this.labels ? this.labels[task] : task }

    pick(x, y) {
      const found = this.found(x, y).at(-1)
      this.picked = found ? this.block(found[0].task[found[1]]) : null
      this.mark_picked()
      this.view.redraw()
    }

    // Fade the bars of all blocks but the one that was clicked, and name that.
    mark_picked() {
      const block = this.picked, found = block !== null
      const said = []
      for (const bars of this.bars) {
        const is_of_it = (task) => this.block(task) === block
        bars.picked = found ? Uint8Array.from(bars.task, is_of_it) : null
        if (!found || !bars.picked.includes(1)) continue
        let total_ms = 0
        bars.picked.forEach((is_picked, i) => { if (is_picked) total_ms += duration_ms(bars, i) })
        said.push(`${bars.name} ${three_digits(total_ms)} ms`)
      }
      const name = typeof block == "number" ? `task ${block}` : block
      document.getElementById("picked").textContent = found ? `${name}: ${said.join(", ")}` : ""
    }
  }

  const duration_ms = (bars, i) => (bars.right[i] - bars.left[i]) * 1000

  function height_of(slots) {
    const [least, most] = LANES_BETWEEN
    return TOP + Math.min(Math.max(LANE * slots.length, least), most) + BOTTOM
  }

  function shortened(pen, text, width) {
    if (pen.measureText(text).width <= width) return text
    let end = text
    while (end && pen.measureText(`…${end}`).width > width) end = end.slice(1)
    return `…${end}`
  }

  function hatch(colour) {
    const tile = element("canvas", "")
    tile.width = tile.height = 9
    const pen = tile.getContext("2d")
    pen.strokeStyle = colour
    pen.lineWidth = 2.5
    for (const x of [-9, 0, 9]) {
      pen.moveTo(x, 9)
      pen.lineTo(x + 9, 0)
    }
    pen.stroke()
    return pen.createPattern(tile, "repeat")
  }

  // Means over equal steps of time, stacked or on their own

  class Curves extends Chart {
    constructor(place, view, curves) {
      super(place, view, CURVE_HEIGHT, `${curves.label} over time`)
      this.curves = curves
    }

    y(value) { return this.bottom - value / this.curves.top * (this.bottom - TOP) }

    draw_data(pen) {
      const {edges, phases, levels, is_stacked} = this.curves
      for (const tick of this.value_ticks()) this.level(pen, tick, GRID)
      let below = new Float64Array(edges.length - 1)
      for (const {values, colour} of phases) {
        const above = is_stacked ? values.map((value, i) => value + below[i]) : values
        pen.fillStyle = pen.strokeStyle = colour
        pen.globalAlpha = is_stacked ? 1 : 0.12
        pen.fill(this.outline(above, below))
        pen.globalAlpha = 1
        pen.lineWidth = 1.6
        if (is_stacked) below = above
        else pen.stroke(this.outline(above, []))
      }
      pen.setLineDash([6, 4])
      for (const {value, colour} of levels) this.level(pen, value, colour)
      pen.setLineDash([])
    }

    level(pen, value, colour) {
      this.line(pen, this.left, this.y(value), this.right, this.y(value), colour)
    }

    // Steps from left to right, and those below them back.
    outline(above, below) {
      const {edges} = this.curves, path = new Path2D()
      for (let i = 0; i < above.length; i++) {
        path.lineTo(this.x_within(edges[i]), this.y(above[i]))
        path.lineTo(this.x_within(edges[i + 1]), this.y(above[i]))
      }
      for (let i = below.length - 1; i >= 0; i--) {
        path.lineTo(this.x_within(edges[i + 1]), this.y(below[i]))
        path.lineTo(this.x_within(edges[i]), this.y(below[i]))
      }
      return path
    }

    value_ticks() { return ticks(0, this.curves.top, 4) }

    draw_values(pen) {
      for (const tick of this.value_ticks()) {
        pen.fillText(String(Number(tick.toPrecision(6))), this.left - 6, this.y(tick))
      }
      pen.save()
      pen.translate(10, (TOP + this.bottom) / 2)
      pen.rotate(-Math.PI / 2)
      pen.textAlign = "center"
      pen.fillText(this.curves.label, 0, 0)
      pen.restore()
    }

    hover(event) {
      const {edges, phases, digits, unit} = this.curves
      const at = this.seconds(event.offsetX)
      const step = edges.findIndex((edge, i) => edge <= at && at < edges[i + 1])
      if (step < 0 || !phases.length || event.offsetX < this.left) return this.leave()
      const [from, to] = [this.x_within(edges[step]), this.x_within(edges[step + 1])]
      this.light_between(from, to, "rgba(29, 35, 48, 0.08)")
      const rows = phases.map(({title, values}) => [title, show_fixed(values[step], digits) + unit])
      show_tip(event, [["time", `${show_fixed(edges[step], 3)} s`], ...rows])
    }
  }

  // Names of the kinds, which hide their bars, and what to do with the axis of time

  function legend(gantt) {
    const line = element("div", "legend")
    for (const name of new Set(gantt.bars.map((bars) => bars.legend))) {
      const {is_lost, colour, is_visible} = gantt.bars.find((bars) => bars.legend == name)
      const button = element("button", "", name)
      const swatch = element("i", is_lost ? "lost" : "")
      if (!is_lost) swatch.style.background = colour
      button.prepend(swatch)
      button.setAttribute("aria-pressed", String(is_visible))
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(gantt.toggle(name)))
        gantt.view.redraw()
      })
      line.append(button)
    }
    return line
  }

  function toolbar(gantt) {
    const {view} = gantt, line = element("div", "tools")
    const add = (word, title, act) => {
      const button = line.appendChild(element("button", "", word))
      button.title = title
      button.addEventListener("click", () => { act(button); press() })
      return button
    }
    const tools = {
      zoom: add("zoom", "a drag zooms into the time it spans", () => view.use("zoom")),
      move: add("move", "a drag moves along the time", () => view.use("move")),
    }
    const wheel = add("wheel", "the wheel zooms", () => { view.wheel = !view.wheel })
    const press = () => {
      for (const [tool, button] of Object.entries(tools)) {
        button.setAttribute("aria-pressed", String(view.tool == tool))
      }
      wheel.setAttribute("aria-pressed", String(view.wheel))
    }
    add("reset", "the whole run", () => view.reset())
    add("save", "this chart as a picture", () => save(gantt))
    press()
    return line
  }

  function save(chart) {
    chart.canvas.toBlob((picture) => {
      const link = element("a", "")
      link.href = URL.createObjectURL(picture)
      link.download = "gantt.png"
      link.click()
      setTimeout(() => URL.revokeObjectURL(link.href), 1000)
    })
  }

  const view = new View(data.gantt.start, data.gantt.end)
  const gantt = new Gantt("gantt", view)
  const running = new Curves("running", view, data.running)
  const throughput = new Curves("throughput", view, data.throughput)
  const notes = element("div", "")
  let names = legend(gantt)
  gantt.place.prepend(names)
  gantt.place.append(toolbar(gantt), notes)
  tell_notes()

  function tell_notes() {
    notes.replaceChildren(...data.gantt.notes.map((note) => element("p", "note", note)))
  }

  function name_kinds() {
    const fresh = legend(gantt)
    if (fresh.textContent == names.textContent) return
    names.replaceWith(fresh)
    names = fresh
  }

  // Show another state of the run, said as the page says the first one.
  function take(text) {
    data = JSON.parse(text, unpacked)
    gantt.take(data.gantt)
    running.curves = data.running
    throughput.curves = data.throughput
    name_kinds()
    tell_notes()
    view.bind(data.gantt.start, data.gantt.end)
  }

  window.charts = {view, gantt, running, throughput, take}
})()
