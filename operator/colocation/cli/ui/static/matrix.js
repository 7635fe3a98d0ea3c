// Nodes x buckets, however many: only what can be seen is in the document, and of that only cells that hold something.
import { age, cutInTheMiddle, element } from "./elements.js";

export const STATES = {
  complete: ["✓", "complete"],
  copying: ["↓", "being copied"],
  planned: ["+", "planned"],
  proposed: ["?", "awaits approval"],
  partial: ["◐", "incomplete"],
  missing: ["○", "missing"],
  corrupt: ["✕", "damaged"],
  down: ["!", "node is away"],
  failed: ["↻", "copy failed, tried again"],
  surplus: ["–", "to be deleted"],
  unknown: ["·", "not known"],
};
const SIDE = 22;
const NAMES = 200;
const MOST_LETTERS = 26;
const OVERSCAN = 3;
const MOST_ROWS = 18;
const NARROWEST = 10;

export class Matrix {
  constructor(root, detail) {
    this.root = root;
    this.detail = detail;
    this.rows = [];
    this.buckets = 0;
    this.now = "";
    this.wide = SIDE;
    this.active = { row: 0, bucket: 0 };
    this.head = element("div", "matrix-head");
    this.head.setAttribute("role", "row");
    this.head.setAttribute("aria-rowindex", "1");
    this.body = element("div", "matrix-body");
    this.body.setAttribute("role", "rowgroup");
    root.append(this.head, this.body);
    root.addEventListener("scroll", () => this.schedule(), { passive: true });
    root.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("focus", () => this.describe());
    root.addEventListener("click", (event) => this.point(event));
    new ResizeObserver(() => {
      this.fit();
      this.schedule();
    }).observe(root);
  }

  /** rows: [{node, state, cells: [[bucket, state, reason, since, percent]]}] */
  show(rows, buckets, now) {
    this.rows = rows.map((row) => ({ ...row, byBucket: new Map(row.cells.map((cell) => [cell[0], cell])) }));
    this.buckets = buckets;
    this.now = now;
    this.active.row = Math.min(this.active.row, Math.max(0, rows.length - 1));
    this.active.bucket = Math.min(this.active.bucket, Math.max(0, buckets - 1));
    this.fit();
    this.root.setAttribute("aria-rowcount", rows.length + 1);
    this.root.setAttribute("aria-colcount", buckets + 1);
    this.head.style.height = `${SIDE}px`;
    this.body.style.height = `${rows.length * SIDE}px`;
    const frame = this.root.offsetHeight - this.root.clientHeight;
    this.root.style.height = `${Math.min(rows.length + 1, MOST_ROWS) * SIDE + frame}px`;
    this.draw();
    this.describe();
  }

  /** Columns are as narrow as they have to be for all buckets to be seen, within reason. */
  fit() {
    const room = (this.root.clientWidth - NAMES) / Math.max(1, this.buckets);
    this.wide = Math.max(NARROWEST, Math.min(SIDE, Math.floor(room)));
    this.root.classList.toggle("narrow", this.wide < SIDE);
    for (const part of [this.head, this.body]) part.style.width = `${NAMES + this.buckets * this.wide}px`;
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.root;
    const first = Math.max(0, Math.floor(scrollTop / SIDE) - OVERSCAN);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / SIDE) + OVERSCAN);
    const from = Math.max(0, Math.floor(scrollLeft / this.wide) - OVERSCAN);
    const to = Math.min(this.buckets, Math.ceil((scrollLeft + clientWidth) / this.wide) + OVERSCAN);
    this.head.replaceChildren(...this.headers(from, to));
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this.row(index, from, to));
    this.body.replaceChildren(...rows);
    this.root.setAttribute("aria-activedescendant", "active-cell");
  }

  headers(from, to) {
    const corner = element("div", "row-name corner", "node \\ bucket");
    corner.setAttribute("role", "columnheader");
    corner.style.width = `${NAMES}px`;
    const made = [corner];
    const step = [1, 2, 5].find((one) => one * this.wide > String(this.buckets).length * 8 + 6) ?? 10;
    for (let bucket = from - (from % step); bucket < to; bucket += step) {
      const name = element("div", "column-name", bucket);
      name.setAttribute("role", "columnheader");
      name.setAttribute("aria-colindex", bucket + 2);
      name.style.left = `${NAMES + bucket * this.wide}px`;
      made.push(name);
    }
    return made;
  }

  row(index, from, to) {
    const row = this.rows[index];
    const made = element("div", "matrix-row");
    made.setAttribute("role", "row");
    made.setAttribute("aria-rowindex", index + 2);
    made.style.top = `${index * SIDE}px`;
    made.style.width = `${NAMES + this.buckets * this.wide}px`;
    made.style.height = `${SIDE}px`;
    const state = row.state ? ` (${row.state})` : "";
    const name = element("div", `row-name${state ? " bad" : ""}`, cutInTheMiddle(row.node, MOST_LETTERS - state.length) + state);
    name.setAttribute("role", "rowheader");
    name.style.width = `${NAMES}px`;
    name.title = row.node + state;
    made.append(name);
    for (const cell of row.cells) {
      if (cell[0] >= from && cell[0] < to) made.append(this.cell(index, cell));
    }
    const { row: activeRow, bucket } = this.active;
    if (index === activeRow && !row.byBucket.has(bucket)) made.append(this.cell(index, [bucket, "", "", null, null]));
    return made;
  }

  cell(index, cell) {
    const [bucket, state] = cell;
    const made = element("div", `cell ${state}`, state ? STATES[state][0] : "");
    made.setAttribute("role", "gridcell");
    made.setAttribute("aria-colindex", bucket + 2);
    made.setAttribute("aria-label", this.words(index, cell));
    made.title = this.words(index, cell);
    made.style.left = `${NAMES + bucket * this.wide + 1}px`;
    made.style.width = `${this.wide - 2}px`;
    if (index === this.active.row && bucket === this.active.bucket) {
      made.id = "active-cell";
      made.classList.add("active");
    }
    return made;
  }

  words(index, [bucket, state, reason, since, percent]) {
    const what = state ? STATES[state][1] : "holds nothing";
    const done = percent == null ? "" : `, ${percent} %`;
    const time = age(since, this.now);
    return `${this.rows[index].node}, bucket ${bucket}: ${what}${done}${time ? `, for ${time}` : ""}${reason ? ` (${reason})` : ""}`;
  }

  describe() {
    const row = this.rows[this.active.row];
    if (!row) return;
    const cell = row.byBucket.get(this.active.bucket) ?? [this.active.bucket, "", "", null, null];
    const text = this.words(this.active.row, cell);
    if (this.detail.textContent !== text) this.detail.textContent = text;
  }

  point(event) {
    const body = this.body.getBoundingClientRect();
    const row = Math.floor((event.clientY - body.top) / SIDE);
    const bucket = Math.floor((event.clientX - body.left - NAMES) / this.wide);
    if (row >= 0 && row < this.rows.length && bucket >= 0 && bucket < this.buckets) this.go(row, bucket);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.root.clientHeight / SIDE) - 2);
    const { row, bucket } = this.active;
    const ends = event.ctrlKey || event.metaKey;
    const steps = {
      ArrowUp: [row - 1, bucket], ArrowDown: [row + 1, bucket], ArrowLeft: [row, bucket - 1], ArrowRight: [row, bucket + 1],
      PageUp: [row - page, bucket], PageDown: [row + page, bucket],
      Home: [ends ? 0 : row, 0], End: [ends ? this.rows.length - 1 : row, this.buckets - 1],
    };
    const step = steps[event.key];
    if (!step || !this.rows.length) return;
    event.preventDefault();
    this.go(Math.max(0, Math.min(this.rows.length - 1, step[0])), Math.max(0, Math.min(this.buckets - 1, step[1])));
  }

  go(row, bucket) {
    this.active = { row, bucket };
    const { clientHeight, clientWidth } = this.root;
    const top = row * SIDE;
    const left = bucket * this.wide;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    if (top + 2 * SIDE > this.root.scrollTop + clientHeight) this.root.scrollTop = top + 2 * SIDE - clientHeight;
    if (left < this.root.scrollLeft) this.root.scrollLeft = left;
    if (left + this.wide + NAMES > this.root.scrollLeft + clientWidth) this.root.scrollLeft = left + this.wide + NAMES - clientWidth;
    this.draw();
    this.describe();
  }
}
