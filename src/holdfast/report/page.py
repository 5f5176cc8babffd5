"""Build one self-contained HTML page: no scripts and no external files, light and dark colours, readable on a phone."""

from collections.abc import Sequence
from html import escape

_STYLE = """
:root{--ink:#1c2024;--faint:#9aa3ab;--paper:#fbfbf9;--card:#fff;--edge:#e3e5e3;--note:#59636b;--good:#1b7f4b;--bad:#b3261e;
--s0:#2563a8;--s1:#c2571a;--s2:#2e8b57;--s3:#8e44ad;--s4:#b8860b;--s5:#5f6b73;
--exact:#0072b2;--tentative:#c47d00;--predicted:#b8579a;--absent:#c8401a}
@media(prefers-color-scheme:dark){:root{--ink:#e7e9ea;--faint:#6d767d;--paper:#15181b;--card:#1d2125;--edge:#31373c;--note:#a3adb5;
--good:#5fd39a;--bad:#ff8a80;--s0:#74b0f0;--s1:#f2a06a;--s2:#77d3a0;--s3:#cf9be6;--s4:#e6c35c;--s5:#a8b3bb;
--exact:#4fb0ee;--tentative:#f0b429;--predicted:#e391c8;--absent:#ff7a50}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:70rem;margin:0 auto;padding:1.2rem}
h1{font-size:1.6rem;line-height:1.2;margin:.4rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1rem 0 .3rem}
p{margin:.4rem 0;max-width:46rem}.note{color:var(--note);font-size:.9rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}
th,td{padding:.35rem .7rem;text-align:right;border-bottom:1px solid var(--edge);white-space:nowrap}
th:first-child,td:first-child,th.words,.name{text-align:left}th{font-weight:600;white-space:normal;vertical-align:bottom}
td.words{white-space:normal;text-align:left;min-width:12rem}h1,h2,h3,p{overflow-wrap:anywhere}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr));gap:1rem}
.scroll+.grid,.scroll+.note,.note+.grid{margin-top:.8rem}
.card{max-width:44rem;background:var(--card);border:1px solid var(--edge);border-radius:.5rem;padding:.8rem}
.card p{font-size:.92rem}.plot{width:100%;height:auto;display:block}
@media(max-width:40rem){.stacked thead{display:none}.stacked tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--edge)}
.stacked td{display:inline-block;text-align:left;border:0;padding:0 1rem .2rem 0;white-space:normal;overflow-wrap:anywhere}
.stacked td.words{display:block;min-width:0;padding-right:0}
.stacked td:empty{display:none}
.stacked td[data-column]:not([data-column=""])::before{content:attr(data-column) ": ";color:var(--note)}}
a{color:var(--s0)}:target{outline:2px solid var(--s0);outline-offset:.3rem;border-radius:.2rem}
.good{color:var(--good)}.bad{color:var(--bad)}code{font-size:.9em}pre{overflow-x:auto;font-size:.85rem}
"""


def html_page(title: str, parts: Sequence[str]) -> str:
    """Return the whole document."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1>{''.join(parts)}"
        "</main></body></html>\n"
    )


class Markup(str):
    """Text that is already HTML, such as a link, and is not escaped."""

    __slots__ = ()


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, *, note: bool = False) -> str:
    """Return a paragraph. A note is set smaller: readers can skip it.

    >>> paragraph("a < b", note=True)
    '<p class="note">a &lt; b</p>'
    """
    return f'<p class="note">{escape(text)}</p>' if note else f"<p>{escape(text)}</p>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str] = (), names: Sequence[str] = ()) -> str:
    """Return a table. The columns in `words` contain sentences, those in `names` contain names.

    On a narrow screen, a table with sentences stacks the cells of a row, and other tables scroll sideways.
    """
    kinds = dict.fromkeys(words, " class=words") | dict.fromkeys(names, " class=name")
    head = "".join(f"<th{kinds.get(column, '')}>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{kinds.get(column, "")} data-column="{escape(column)}">{_cell(cell)}</td>'
            for column, cell in zip(columns, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    stacked = " class=stacked" if words else ""
    return f'<div class="scroll"><table{stacked}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def long_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    most: int,
    where: str,
    words: Sequence[str] = (),
    names: Sequence[str] = (),
) -> str:
    """Return a table of at most `most` rows, with a note on how many more there are and where to find them.

    >>> long_table(("a",), [("1",), ("2",), ("3",)], most=2, where="in the plan").partition("</div>")[2]
    '<p class="note">And 1 more, in the plan.</p>'
    """
    more = [paragraph(f"And {len(rows) - most:,} more, {where}.", note=True)] if len(rows) > most else []
    return "".join([table(columns, rows[:most], words=words, names=names), *more])


def _cell(text: str) -> str:
    return text if isinstance(text, Markup) else escape(text)


def verdicts(rows: Sequence[tuple[str, bool | None, str]]) -> str:
    """Return a table of (name, whether it holds, reason). Whether it holds is true, false or unknown."""
    marks = {True: ("good", "true"), False: ("bad", "false"), None: ("note", "unknown")}
    body = "".join(
        f'<tr><td class="words">{escape(name)}</td><td class="{marks[holds][0]}" data-column="holds">{marks[holds][1]}</td>'
        f'<td class="words">{escape(reason)}</td></tr>'
        for name, holds, reason in rows
    )
    head = "<th>finding</th><th>holds</th><th class=words>what was found</th>"
    return f'<div class="scroll"><table class=stacked><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def cards(parts: Sequence[str]) -> str:
    """Return the parts as cards, side by side where there is room."""
    return f'<div class="grid">{"".join(f"<div class=card>{part}</div>" for part in parts)}</div>'
