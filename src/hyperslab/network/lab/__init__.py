"""A laboratory of links: nodes on this host alone, whose links are slow, distant or lossy.

```python
from hyperslab.network.lab import laboratory, parse_spec

spec = parse_spec('[nodes.scheduler]\\n[nodes.w1]\\nrate = "100Mbit"', "spec")
with laboratory(spec) as lab:
    subprocess.run([*lab.prefix("w1"), "ping", "-c", "3", "scheduler"], check=True)
```
"""

from hyperslab.network.lab.changing import change
from hyperslab.network.lab.making import laboratory, make
from hyperslab.network.lab.removing import remove
from hyperslab.network.lab.spec import load_spec, parse_spec

__all__ = ["change", "laboratory", "load_spec", "make", "parse_spec", "remove"]
