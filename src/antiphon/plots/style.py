"""How the pages look: light and dark, on a screen, on a phone and on paper."""

CSS = """
:root { color-scheme: light dark;
  --ground: #ffffff; --panel: #f6f7f9; --ink: #1d2430; --soft: #5b6675; --edge: #d9dee5; --link: #1f5fa8;
  --blue: #2b6cb0; --teal: #16867a; --amber: #c77700; --violet: #7b4fb5; --red: #c5352b; --grey: #9aa4b1;
  --green: #3f9d57; --deep-ink: #ffffff; --middle-ink: #1d2430; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #12161c; --panel: #1a2028; --ink: #e6eaf0; --soft: #a0abb9; --edge: #313a46; --link: #7db4f0;
  --blue: #68a8ec; --teal: #3fbfae; --amber: #eaa53c; --violet: #b394e6; --red: #f07468; --grey: #66717f;
  --green: #62c47c; --deep-ink: #0d1117; --middle-ink: #0d1117; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif; }
main, header, footer { max-width: 808px; margin: 0 auto; padding: 0 16px; }
header { padding-top: 28px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 44px 0 8px; padding-top: 10px; border-top: 2px solid var(--edge); }
h3 { font-size: 1rem; margin: 24px 0 6px; overflow-wrap: anywhere; }
p { margin: 6px 0 12px; max-width: 68ch; }
a { color: var(--link); }
code { font-size: .9em; overflow-wrap: anywhere; }
.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.note { border-left: 4px solid var(--amber); background: var(--panel); padding: 8px 12px; max-width: none; }
.bad { border-left-color: var(--red); }
.good { border-left-color: var(--green); }
nav ul { list-style: none; padding: 0; margin: 12px 0 0; display: flex; flex-wrap: wrap; gap: 4px 16px; }
dl.facts { display: grid; gap: 8px; margin: 16px 0;
  grid-template-columns: repeat(auto-fill, minmax(140px, 1fr)); }
dl.facts div { background: var(--panel); border-radius: 6px; padding: 8px 12px; }
dl.facts dt { color: var(--soft); font-size: .85rem; }
dl.facts dd { margin: 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; }
figure { margin: 12px 0 18px; }
figcaption { margin-bottom: 6px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 0 0 6px; padding: 0; list-style: none;
  font-size: .85rem; }
.legend svg { margin-right: 5px; vertical-align: -1px; }
.narrow { display: none; }
@media (max-width: 807px) { .wide { display: none; } .narrow { display: block; } }
svg { display: block; max-width: 100%; height: auto; font-size: 12px; overflow: visible; }
.legend svg { display: inline-block; }
svg text { fill: var(--ink); font-variant-numeric: tabular-nums; }
svg text.tick, svg text.axis { fill: var(--soft); }
svg text.on-deep { fill: var(--deep-ink); } svg text.on-middle { fill: var(--middle-ink); }
svg .grid { stroke: var(--edge); stroke-width: 1; }
svg .base { stroke: var(--soft); stroke-width: 1; }
svg .span { stroke: var(--grey); stroke-width: 2; }
svg .moment { stroke: var(--violet); stroke-width: 1; stroke-dasharray: 2 3; }
svg .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
svg .curve.one { stroke: var(--blue); } svg .curve.two { stroke: var(--amber); }
svg .mark0 { fill: var(--blue); } svg .mark1 { fill: var(--teal); }
svg .mark2 { fill: var(--amber); } svg .mark3 { fill: var(--red); }
svg circle { stroke: var(--ground); stroke-width: 1; }
svg .part0 { fill: var(--blue); } svg .part1 { fill: var(--teal); }
svg .part2 { fill: var(--amber); } svg .part3 { fill: var(--violet); }
svg .heat { fill: var(--blue); } svg .empty { fill: var(--edge); fill-opacity: .35; }
svg .works { fill: var(--green); fill-opacity: .55; } svg .searches { fill: var(--amber); }
svg .forms { fill: var(--violet); } svg .down { fill: var(--red); } svg .line-one { fill: var(--blue); }
svg .line-two { fill: var(--amber); } svg .moments { fill: var(--violet); }
.table { overflow-x: auto; margin: 8px 0 20px; border: 1px solid var(--edge); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 8px 10px; color: var(--soft); }
th, td { padding: 5px 10px; text-align: left; white-space: nowrap; border-top: 1px solid var(--edge); }
thead th { background: var(--panel); border-top: 0; font-weight: 600; }
td.number, th.number { text-align: right; }
td.long { white-space: normal; min-width: 200px; overflow-wrap: anywhere; }
footer { margin-top: 40px; padding-bottom: 32px; }
@media print {
  :root { color-scheme: light; --ground: #fff; --panel: #f2f3f5; --ink: #000; --soft: #444; --edge: #ccc;
    --blue: #2b6cb0; --teal: #16867a; --amber: #c77700; --violet: #7b4fb5; --red: #c5352b; --grey: #9aa4b1;
    --green: #3f9d57; --deep-ink: #fff; --middle-ink: #000; --link: #000; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { font-size: 11pt; } main, header, footer { max-width: none; padding: 0; }
  nav { display: none; } .wide { display: block; } .narrow { display: none; }
  .table { overflow: visible; border: 0; }
  table { font-size: 8.5pt; } th, td { padding: 2px 6px; white-space: normal; }
  figure, tr, dl.facts div, .note { break-inside: avoid; } h2, h3, figcaption, caption { break-after: avoid; }
  thead { display: table-header-group; } }
"""
