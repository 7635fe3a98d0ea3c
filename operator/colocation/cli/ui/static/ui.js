// Asks for what is true every few seconds while the page is seen, and shows it. There is nothing here that changes anything.
import { age, element, fill, plain, say, size, table } from "./elements.js";
import { Matrix, STATES } from "./matrix.js";

const EVERY_MS = 3000;
const PATIENCE_MS = 60000;
const matrix = new Matrix(document.getElementById("matrix"), document.getElementById("cell"));
const onlyOpen = document.getElementById("only-open");
let verdicts = new Map();
let page = null;

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS) });
  const value = JSON.parse(await answer.text(), (key, one) => (typeof one === "string" ? plain(one) : one));
  if (!answer.ok) throw new Error(value.error);
  return value;
}

const nameOf = (group) => `${group.namespace}/${group.name}`;
const linkOf = (group) => `#${encodeURIComponent(group.namespace)}/${encodeURIComponent(group.name)}`;

/** The group of the address; else the one that is shown, so that links within the page change nothing. */
function chosen(groups) {
  const wanted = groups.find((one) => linkOf(one) === location.hash);
  return wanted ?? groups.find((one) => page && nameOf(one) === nameOf(page)) ?? groups[0];
}

/** [words, tone] of a verdict. */
function verdict(group) {
  if (group.stable == null) return ["unknown", "wait"];
  return group.stable ? ["stable", "good"] : ["not stable", "bad"];
}

/** [words, tone]: whether a join that starts now shuffles. */
function joins(group) {
  if (group.stable == null && !group.reason) return ["joins: not judged yet", "wait"];
  return group.joins.shuffle ? ["joins shuffle", "bad"] : ["joins do not shuffle", "good"];
}

function showBadge(id, [word, tone], why = "") {
  document.getElementById(id).className = `badge ${tone}`;
  say(id, why ? `${word}: ${why}` : word);
}

function showGroups(groups, current) {
  const items = groups.map((group) => ({ group, current: group === current }));
  fill(document.getElementById("groups"), items, ({ group, current: isCurrent }) => {
    const [word, tone] = verdict(group);
    const [joined, joinedTone] = joins(group);
    const link = element("a", "", nameOf(group), element("span", `why ${joinedTone}`, joined), element("span", `why ${tone}`, group.stable ? word : `${word}: ${group.reason ?? ""}`));
    if (waitsForApproval(group)) link.append(element("span", "why wait", "AwaitingApproval"));
    link.href = linkOf(group);
    if (isCurrent) link.setAttribute("aria-current", "page");
    return element("li", "", link);
  });
}

/** Tell a screen reader what changed, politely, and nothing at first. */
function announce(groups) {
  const known = new Map(groups.map((group) => [nameOf(group), `${verdict(group)[0]}, ${group.reason ?? ""}`]));
  const changed = [...known].filter(([name, words]) => verdicts.size && verdicts.get(name) !== words);
  if (changed.length) say("news", changed.slice(0, 3).map(([name, words]) => `Group ${name} is ${words}`).join(". "));
  verdicts = known;
}

function showGroup(group) {
  say("group-name", nameOf(group));
  showBadge("group-joins", joins(group));
  showBadge("group-verdict", verdict(group), group.reason);
  say("group-message", group.joins.why || group.message);
  const doing = waitsForApproval(group) && group.doing.startsWith("AwaitingApproval") ? "" : group.doing; // the notice below shows it
  const facts = [
    ["Schema", `${group.buckets} buckets × ${group.replicas} replicas by (${group.bucketKey}), map version ${group.mapVersion ?? "none"}`],
    ["In this state", group.since ? `for ${age(group.since, group.now)}, since ${group.since}` : ""],
    ["Tables", group.tableNames.join(", ")], ["Doing", doing], ["In the way", group.stalled],
  ].filter(([, text]) => text);
  fill(document.getElementById("group-facts"), facts.flatMap(([name, text]) => [["dt", name], ["dd", text]]), ([tag, text]) => element(tag, "", text));
  showProposal(group);
  showMatrix();
  showMoves(group);
  showCopies(group);
}

function waitsForApproval(group) {
  return Boolean(group.proposal) && !group.proposal.approved;
}

function showProposal(group) {
  document.getElementById("proposal").hidden = !waitsForApproval(group);
  if (!waitsForApproval(group)) return;
  const { id, replicas, bytes, reason, madeAt } = group.proposal;
  const what = `${replicas} replica${replicas === 1 ? "" : "s"}, ${size(bytes)}`;
  say("proposal-text", `The operator proposes to move ${what} (${reason}), since ${madeAt}. It moves none of them until somebody approves. Queries run as before. The moves are listed below; ? marks their targets.`);
  say("proposal-command", `colocation approve ${group.name} -n ${group.namespace} --proposal ${id}`);
}

function showMatrix() {
  const rows = onlyOpen.checked ? page.rows.filter((row) => row.state || row.cells.some((cell) => cell[1] !== "complete")) : page.rows;
  matrix.show(rows, page.buckets ?? 0, page.now);
}

function showMoves(group) {
  const count = group.moveCount;
  const shown = count > group.moves.length ? ` The first ${group.moves.length} are listed.` : "";
  const nothing = group.isPlanKnown ? "Nothing would move." : "Not known: the operator's plan cannot be read.";
  say("moves-summary", count ? `${count} replica${count === 1 ? "" : "s"} to make, ${size(group.moveBytes)}.${shown}` : nothing);
  document.getElementById("moves").parentElement.hidden = count === 0;
  table("moves", ["Bucket", "From", "To", "Kind", "Size", "Start", "Reason"], group.moves.map((move) => [
    { text: move.bucket, number: true }, move.from === move.to ? "other replicas" : move.from ?? "–", move.to, move.kind, { text: size(move.bytes), number: true },
    { text: move.start, tone: move.start === "once approved" ? "wait" : "" }, move.reason,
  ]), "");
}

function showCopies(group) {
  table("copies", ["Bucket", "From", "To", "Progress", "Last progress", "Failures"], group.running.map((clone) => [
    { text: clone.bucket, number: true }, clone.from ?? "any replica", clone.to,
    { text: `${size(clone.bytesDone)} of ${size(clone.bytesTotal)}`, progress: clone.bytesDone, of: clone.bytesTotal },
    clone.retryAt ? { text: `failed; next try at ${clone.retryAt}`, tone: "bad" } : `${age(clone.since, group.now)} ago`,
    { text: clone.failures, number: true },
  ]), "No copies are under way.");
}

const QUERIES_HINT = "From the logs of Spark's drivers, which tell each query on these tables with the verdicts of explain.";

function showQueries({ queries, queriesGap, now }) {
  say("queries-hint", queriesGap ? `${QUERIES_HINT} There may be more: ${queriesGap}.` : QUERIES_HINT);
  table("queries", ["Ended", "Driver", "Query", "Tables", "Took", "Shuffled", "Verdicts"], queries.map((query) => [
    `${age(query.endedAt, now)} ago`, `${query.namespace}/${query.driver}`, { text: query.execution, number: true }, query.tables.join(", "),
    { text: `${query.seconds.toLocaleString("en-US", { maximumFractionDigits: 1 })} s`, number: true },
    query.shuffled ? { text: "yes", tone: "bad" } : { text: "no", tone: "good" },
    query.verdicts.map((one) => one.text).join("; ") || "no join, group-by or window",
  ]), "No query ended in the last hour.");
}

function showTables(tables) {
  table("tables", ["Table", "Group", "State", "Snapshot", "Committed at", "Rows", "Size", "Files", "Kept snapshots"], tables.map((one) => {
    const [newest, ...older] = one.snapshots;
    const kept = older.map((old) => `${old.id} (${old.committedAt ?? ""})`).join(", ");
    const state = one.matter ? { text: one.matter, tone: "bad" } : one.accepted ? "accepted" : { text: "not judged yet", tone: "wait" };
    const numbers = newest ? [newest.rows, size(newest.bytes), newest.files] : ["", "", ""];
    return [`${one.namespace}/${one.name}`, one.group, state, newest ? newest.id : "not loaded", newest?.committedAt ?? "",
      ...numbers.map((text) => ({ text: text?.toLocaleString("en-US") ?? "", number: true })), kept];
  }), "There are no tables.");
}

function showNodes(nodes, now) {
  table("nodes", ["Node", "State", "For", "Zone", "Weight", "Replicas", "Last ones", "Disk used", "Why", "Disk"], (nodes ?? []).map((node) => {
    const used = node.capacityBytes - node.freeBytes;
    const tone = { ready: "good", "not ready": "bad", "sick disk": "bad" }[node.state] ?? "wait";
    return [node.name, { text: node.state, tone }, age(node.since, now), node.zone ?? "", { text: Number(node.weight.toPrecision(4)), number: true },
      { text: node.replicas, number: true }, { text: node.lastReplicas || "", number: true, tone: node.lastReplicas ? "bad" : "" },
      node.capacityBytes ? { text: `${size(used)} of ${size(node.capacityBytes)}`, progress: used, of: node.capacityBytes } : "not known", node.reason, node.disk];
  }), nodes ? "There are no nodes." : "Not known: the operator cannot be asked.");
}

function showEvents(events, now) {
  table("events", ["When", "Group", "What", "Message"], events.map((event) => [
    event.time ? `${age(event.time, now)} ago` : "", `${event.namespace}/${event.group}`,
    { text: event.reason, tone: event.type === "Warning" ? "bad" : "" }, event.message,
  ]), "Nothing was decided lately.");
}

async function refresh() {
  const found = await ask("api/overview");
  announce(found.groups);
  fill(document.getElementById("problems"), found.problems, (text) => element("li", "", text));
  const current = chosen(found.groups);
  showGroups(found.groups, current);
  showQueries(found);
  showTables(found.tables);
  showNodes(found.nodes, found.now);
  showEvents(found.events, found.now);
  document.getElementById("group").hidden = !current;
  document.getElementById("empty").hidden = Boolean(current);
  if (current) {
    page = await ask(`api/group?namespace=${encodeURIComponent(current.namespace)}&name=${encodeURIComponent(current.name)}`);
    showGroup(page);
  }
  document.title = current ? `${nameOf(current)}: ${verdict(current)[0]}` : "No groups";
  say("connection", current ? "live" : "live; there are no groups");
  document.getElementById("connection").className = "";
}

async function live() {
  try {
    if (!document.hidden) await refresh();
  } catch (error) {
    say("connection", `not live: ${error.message}; what is shown is older`);
    document.getElementById("connection").className = "bad";
  }
  setTimeout(live, EVERY_MS);
}

fill(document.getElementById("legend"), Object.keys(STATES), (state) => element("span", "", element("span", `cell ${state}`, STATES[state][0]), STATES[state][1]));
onlyOpen.addEventListener("change", showMatrix);
addEventListener("hashchange", () => refresh().catch(() => {}));
live();
