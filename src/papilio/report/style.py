"""The style sheet of the page: light, dark, and paper."""

STYLE = """
:root { color-scheme: light dark; --page: #fdfdfb; --card: #f2f1ec; --text: #1c1c1a; --soft: #5c5b55;
  --line: #d9d7cf; --accent: #0b5c9e; --c1: #1c1c1a; --c2: #0b5c9e; --c3: #c2500a; --c4: #00795a; --c5: #8a4a9b;
  --c6: #2f8fc4; --c7: #a07400; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #171715; --card: #22221f; --text: #ecebe5;
  --soft: #aaa89f; --line: #3c3b36; --accent: #7dbcf5; --c1: #ecebe5; --c2: #7dbcf5; --c3: #ff9b57; --c4: #53cfa5;
  --c5: #d39be2; --c6: #56b4e9; --c7: #e3bb4a; } }
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
.bar span { display: block; height: .7rem; background: var(--c2); border-radius: 2px; min-width: 1px; }
.bar span + span { background: var(--c3); margin-top: 2px; }
.keys { white-space: nowrap; text-align: left; }
.key { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin: 0 .3rem 0 .2rem; }
.chart { display: block; width: 100%; max-width: 52rem; height: auto; fill: var(--text); }
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
