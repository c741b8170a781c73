"""Style of pages: one style sheet, in the page itself, for light and dark and from 360 pixels of width on."""

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #fcfcfb; --raised: #f3f2ef; --ink: #1b1b19; --quiet: #5d5c57; --line: #d3d1ca;
  --plain: #2a6fc4; --stripe: #c2410c; --between: #fbe3d3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #191918; --raised: #242422; --ink: #f1f0ec; --quiet: #b3b1a9; --line: #45443f;
    --plain: #5d9df0; --stripe: #ff9350; --between: #4a2a14;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem clamp(0.75rem, 3vw, 2rem) 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.5rem; padding-top: 0.75rem; border-top: 1px solid var(--line); }
h3 { font-size: 0.95rem; margin: 0.75rem 0 0.25rem; overflow-wrap: anywhere; }
p { margin: 0.25rem 0 0.75rem; max-width: 65ch; overflow-wrap: anywhere; }
.answer { font-size: 1.15rem; line-height: 1.45; margin: 0 0 1.25rem; }
dl { margin: 0; display: grid; grid-template-columns: minmax(7rem, max-content) minmax(0, 1fr); gap: 0.35rem 1rem; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; max-width: 75ch; }
header p:not(.answer) { margin: 1rem 0 0.35rem; color: var(--quiet); }
pre { margin: 0; padding: 0.5rem 0.75rem; overflow-x: auto; background: var(--raised);
  font: 0.85rem/1.4 ui-monospace, monospace; white-space: pre; border-radius: 4px; }
ul { margin: 0.25rem 0 0.75rem; padding-left: 1.2rem; max-width: 75ch; overflow-wrap: anywhere; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; max-width: none;
  font-size: 0.9rem; color: var(--quiet); }
.legend li { display: flex; gap: 0.5rem; align-items: baseline; }
.swatch { flex: none; transform: translateY(2px); }
figure { margin: 0.5rem 0 1rem; }
figure > .chart { max-width: 44rem; }
.chart { display: block; font-size: 12px; overflow: hidden; }
.grid, .pair { display: grid; gap: 1rem 2.5rem; }
.grid { grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); }
.pair { grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.grid p { font-size: 0.85rem; color: var(--quiet); }
details { margin-top: 0.75rem; }
summary { cursor: pointer; color: var(--quiet); width: max-content; }
.scroll { overflow-x: auto; max-width: 100%; margin: 0.5rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); padding-bottom: 0.25rem; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; padding-left: 0; }
thead th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 400; }
.best th, .best td { font-weight: 600; border-top: 2px solid var(--line); background: var(--raised); }
:focus-visible { outline: 2px solid var(--plain); outline-offset: 2px; }
svg.defs { position: absolute; }
svg text { fill: var(--ink); font-variant-numeric: tabular-nums; }
svg .label, svg .letter { text-anchor: end; }
svg .letter { fill: var(--quiet); font-weight: 600; }
svg .edge, svg .count { text-anchor: middle; font-size: 11px; }
svg .edge { fill: var(--quiet); }
svg .plain { fill: var(--plain); stroke: var(--ground); }
svg .hollow { fill: none; stroke: var(--plain); stroke-width: 1.5; stroke-dasharray: 3 2; }
svg .striped { fill: url(#striped); stroke: var(--ground); }
svg .ground { fill: var(--between); }
svg .stripe { fill: var(--stripe); }
svg .mark { fill: var(--ink); stroke: var(--ground); transform: translateX(-2px); }
svg .axis { stroke: var(--line); }
svg .dashes { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 4 3; }
"""
