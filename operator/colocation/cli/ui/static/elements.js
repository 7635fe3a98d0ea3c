// What the page is made of. All text goes through textContent: names and messages are written by others.

/** A text without what breaks lines, or turns the words next to it around. */
export function plain(text) {
  return text.replace(/\s+/g, " ").replace(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

/** An element with a class and children; a child that is no element becomes text. */
export function element(tag, className = "", ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return made;
}

/** Put a text in place of what an element holds; leave it alone when it is the same, as screen readers read it again. */
export function say(id, text) {
  const found = document.getElementById(id);
  if (found.textContent !== text) found.textContent = text;
}

/** Keep a list's items as they are where their key has not changed. `make(one)` gives the element. */
export function fill(parent, items, make) {
  items.forEach((one, index) => {
    const key = JSON.stringify(one);
    const old = parent.children[index];
    if (old && old.dataset.key === key) return;
    const fresh = make(one);
    fresh.dataset.key = key;
    if (old) old.replaceWith(fresh);
    else parent.append(fresh);
  });
  while (parent.children.length > items.length) parent.lastElementChild.remove();
}

/** A name of at most so many letters: nodes of clouds begin alike, and differ in the middle or at the end. */
export function cutInTheMiddle(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - end)}…${text.slice(-end)}`;
}

/** A table of rows of cells. A cell is a text, or {text, number, tone}, or {progress, of}. */
export function table(id, heads, rows, empty) {
  const found = document.getElementById(id);
  if (!found.tHead) {
    found.append(element("thead", "", element("tr", "", ...heads.map((head) => heading(head)))), element("tbody"));
  }
  found.tHead.hidden = rows.length === 0;
  rows[0]?.forEach((cell, index) => found.tHead.rows[0].cells[index].classList.toggle("number", Boolean(cell?.number)));
  const shown = rows.length ? rows : [[{ text: empty, span: heads.length }]];
  fill(found.tBodies[0], shown, (cells) => element("tr", "", ...cells.map(tableCell)));
}

function heading(text) {
  const made = element("th", "", text);
  made.scope = "col";
  return made;
}

function tableCell(cell) {
  const { text = "", number = false, tone = "", progress, of, span } = typeof cell === "object" && cell ? cell : { text: cell ?? "" };
  const made = element("td", [number ? "number" : "", tone].filter(Boolean).join(" "));
  if (span) made.colSpan = span;
  if (of) {
    const bar = element("progress");
    bar.max = of;
    bar.value = progress;
    bar.setAttribute("aria-label", text);
    made.append(bar, " ");
  }
  made.append(text);
  return made;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Bytes for people. */
export function size(bytes) {
  if (bytes == null) return "";
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit ? `${value.toFixed(1)} ${UNITS[unit]}` : `${bytes} B`;
}

/** How long ago a time was, by the server's clock. */
export function age(time, now) {
  if (!time) return "";
  const seconds = Math.max(0, Math.round((Date.parse(now) - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}
