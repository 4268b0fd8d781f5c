"""The style sheet of the page: light, dark, and paper."""

STYLE = """
:root { color-scheme: light dark; --page: #fdfdfb; --card: #f2f1ec; --text: #1c1c1a; --soft: #5c5b55;
  --line: #d9d7cf; --accent: #0b5c9e; --c1: #0b5c9e; --c2: #c2500a; --c3: #00795a; --c4: #8a4a9b; --c5: #6b6a63;
  --c6: #a07400; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #171715; --card: #22221f; --text: #ecebe5;
  --soft: #aaa89f; --line: #3c3b36; --accent: #7dbcf5; --c1: #7dbcf5; --c2: #ff9b57; --c3: #53cfa5; --c4: #d39be2;
  --c5: #a8a69c; --c6: #e3bb4a; } }
* { box-sizing: border-box; }
html { background: var(--page); color: var(--text); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  "DejaVu Sans", sans-serif; -webkit-text-size-adjust: 100%; }
body { max-width: 60rem; margin: 0 auto; padding: 2.2rem 1.2rem 3rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
header h2 { font-size: 1.5rem; margin: 3rem 0 .3rem; overflow-wrap: anywhere; }
section > h2, h3 { font-size: 1.12rem; margin: 2.3rem 0 .5rem; }
p { margin: .4rem 0 .8rem; max-width: 46rem; }
.lead { font-size: 1.08rem; color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .8rem;
  margin: 1.4rem 0 0; padding: 0; }
.cards div { background: var(--card); border-radius: .6rem; padding: .8rem 1rem .7rem; }
.cards dt { font-size: .82rem; color: var(--soft); }
.cards dd { margin: 0; font-size: 1.55rem; font-weight: 650; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.cards small { display: block; font-size: .82rem; font-weight: 400; color: var(--soft); line-height: 1.35; }
figure { margin: .8rem 0 0; }
figcaption { font-size: .88rem; color: var(--soft); margin-top: .4rem; max-width: 46rem; }
.note { font-size: .88rem; color: var(--soft); margin-top: .7rem; }
.factors { display: flex; flex-wrap: wrap; align-items: center; gap: .7rem .55rem; }
.factors figure { margin: 0; text-align: center; }
.factors figcaption { line-height: 1.3; font-size: .8rem; margin-top: .3rem; }
.sign { font-size: 1.3rem; color: var(--soft); padding-bottom: 2.2rem; }
img { image-rendering: pixelated; border: 1px solid var(--line); border-radius: 2px; max-width: 100%; }
.atoms img { border: 0; height: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; margin: .5rem 0; }
caption { text-align: left; font-size: .88rem; color: var(--soft); padding-bottom: .3rem; }
th, td { text-align: right; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); font-size: .84rem; vertical-align: bottom; }
th:first-child, td:first-child, .words th, .words td, .attempts th:nth-child(2), .attempts td:nth-child(2) {
  text-align: left; }
tr.knee td { font-weight: 700; color: var(--accent); }
.scroll { overflow-x: auto; }
.bar { width: 9rem; padding-right: 0; }
.bar span { display: block; height: .7rem; background: var(--c1); border-radius: 2px; min-width: 1px; }
.bar span + span { background: var(--c2); margin-top: 2px; }
.keys { white-space: nowrap; text-align: left; }
.key { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin: 0 .3rem 0 .2rem; }
.chart { display: block; width: 100%; max-width: 52rem; height: auto; }
.chart text { fill: var(--soft); font-size: 13px; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.axis, .tick { stroke: var(--soft); fill: none; }
.grid { stroke: var(--line); }
.line, .steps, .level { fill: none; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; }
.steps { stroke-width: 1.2; stroke-dasharray: 5 4; }
.level { stroke-dasharray: 2 4; }
.points { stroke: var(--page); stroke-width: 1; }
.c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); }
.c5 { stroke: var(--c5); } .c6 { stroke: var(--c6); }
.points.c1 { fill: var(--c1); } .points.c2 { fill: var(--c2); } .points.c3 { fill: var(--c3); }
.points.c4 { fill: var(--c4); } .points.c5 { fill: var(--c5); } .points.c6 { fill: var(--c6); }
.points.c1, .points.c2, .points.c3, .points.c4, .points.c5, .points.c6 { stroke: var(--page); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; margin: .2rem 0 0;
  font-size: .86rem; color: var(--soft); }
.legend svg { vertical-align: -2px; margin-right: .4rem; }
code { font: .88em ui-monospace, "DejaVu Sans Mono", monospace; background: var(--card); padding: .1em .35em;
  border-radius: .25rem; overflow-wrap: anywhere; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--line); font-size: .84rem;
  color: var(--soft); }
@media print {
  @page { margin: 16mm 15mm; }
  html { background: none; }
  body { max-width: none; padding: 0; zoom: .74; }
  .cards { grid-template-columns: repeat(4, 1fr); }
  .cards div { border: 1px solid var(--line); }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, h3, caption { break-after: avoid; }
  article + article { break-before: page; }
  .cards, figure, .scroll, tr, section > p { break-inside: avoid; }
  .chart { max-width: 20cm; }
}
"""
