"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const S = data.spans; // each before those that it caused
  const N = S.length;
  const KINDS = ["agents", "models", "tools", "messages"];
  const LETTERS = ["A", "M", "T", "·"];
  const at = (id) => document.getElementById(id);
  const rows = at("rows"), find = at("find"), side = at("side"), canvas = at("graph"), box = at("mapbox"), axis = at("axis"), hint = at("hint");
  const narrow = matchMedia("(max-width: 760px)");
  const root = document.documentElement;

  // What is not seen, or turns the direction of what follows, is an escape. Line ends stay where there is room for them.
  const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
  const escaped = (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
  // A part of what was recorded may be an object with a toString that is no function.
  const words = (value) => typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
  const text = (value) => words(value).replace(UNSEEN, escaped);
  const line = (value) => text(value).replace(/[\n\t]/g, (c) => (c === "\n" ? "\\n" : "\\t"));

  function make(tag, name, content) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (content !== undefined) made.textContent = content;
    return made;
  }

  function length(ms) {
    if (ms === null) return "?";
    if (ms < 0.9995) return Math.round(ms * 1000) + " µs";
    if (ms < 999.5) return +ms.toPrecision(3) + " ms";
    if (ms < 59995) return +(ms / 1000).toPrecision(3) + " s";
    const s = Math.round(ms / 1000);
    return s < 3600 ? Math.floor(s / 60) + " m " + String(s % 60).padStart(2, "0") + " s" : Math.floor(s / 3600) + " h " + String(Math.floor((s % 3600) / 60)).padStart(2, "0") + " m";
  }

  // -- the tree: parents, and where the spans under each one end

  const parent = new Int32Array(N).fill(-1), after = new Int32Array(N), folded = new Uint8Array(N), size = new Int32Array(N);
  {
    const open = [];
    for (let i = 0; i < N; i++) {
      while (open.length && S[open[open.length - 1]].d >= S[i].d) after[open.pop()] = i;
      if (open.length) { parent[i] = open[open.length - 1]; }
      open.push(i);
    }
    while (open.length) after[open.pop()] = N;
    for (let i = 0; i < N; i++) size[i] = after[i] - i - 1;
  }
  const whole = Math.max(data.duration, 0.001);
  const endOf = (span) => (span.e === null ? whole : span.e);
  let from = 0, until = whole;

  // -- which rows are shown

  const state = { query: "", errors: false, kinds: [true, true, true, true], chosen: -1, shown: [], depth: new Int32Array(N), hits: 0 };
  const hay = new Array(N);
  function haystack(i) {
    if (hay[i] === undefined) {
      const span = S[i];
      hay[i] = [span.n, span.i, span.x, JSON.stringify(span.a), JSON.stringify(span.v), span.o.join(" ")].join("\n").toLowerCase();
    }
    return hay[i];
  }

  let wanted = null; // 2: it is what is looked for; 1: such a one is beneath
  let asked = false; // what is looked for is shown whatever is folded
  const zoomed = () => from > 0 || until < whole;
  function choose() {
    asked = state.query !== "" || state.errors;
    wanted = asked || zoomed() ? new Uint8Array(N) : null;
    state.hits = 0;
    for (let i = 0; wanted && i < N; i++) {
      if (!state.kinds[S[i].k] || S[i].s > until || endOf(S[i]) < from) continue;
      if (state.errors && !S[i].x) continue;
      if (state.query && !haystack(i).includes(state.query)) continue;
      state.hits++;
      wanted[i] = 2;
      for (let up = parent[i]; up >= 0 && !wanted[up]; up = parent[up]) wanted[up] = 1;
    }
    const shown = [], open = [];
    for (let i = 0; i < N; ) {
      while (open.length && after[open[open.length - 1]] <= i) open.pop();
      if (wanted && !wanted[i]) { i = after[i]; continue; }
      const visible = state.kinds[S[i].k];
      if (visible) {
        state.depth[i] = open.length;
        shown.push(i);
        open.push(i);
      }
      i = visible && folded[i] && !asked ? after[i] : i + 1;
    }
    state.shown = shown;
    at("found").textContent = asked ? state.hits.toLocaleString("en") + " of " + N.toLocaleString("en") : "";
    at("none").hidden = shown.length > 0;
    at("none").textContent = N ? "Nothing of this run is like that." : "This run has no spans.";
    place();
  }

  // -- rows: only those that can be seen exist

  const height = () => (narrow.matches ? 50 : 30);
  let drawn = new Map();
  function place() {
    rows.style.height = state.shown.length * height() + "px";
    for (const row of drawn.values()) row.remove();
    drawn = new Map();
    draw();
  }
  function draw() {
    const h = height(), top = rows.getBoundingClientRect().top, count = state.shown.length;
    const first = Math.max(0, Math.floor(-top / h) - 8), last = Math.min(count, Math.ceil((innerHeight - top) / h) + 8);
    for (const [number, row] of drawn) if (number < first || number >= last) { row.remove(); drawn.delete(number); }
    for (let number = first; number < last; number++) if (!drawn.has(number)) {
      const row = rowOf(state.shown[number], number);
      row.style.top = number * h + "px";
      drawn.set(number, row);
      rows.append(row);
    }
  }

  function marked(into, value) {
    const low = value.toLowerCase(), query = state.query, index = query && low.length === value.length ? low.indexOf(query) : -1;
    if (index < 0) { into.textContent = value; return; }
    into.append(value.slice(0, index), make("mark", "", value.slice(index, index + query.length)), value.slice(index + query.length));
  }

  function rowOf(i, number) {
    const span = S[i], bad = span.x !== "", row = make("div", "row");
    row.id = "r" + i;
    row.dataset.i = i;
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", state.depth[i] + 1);
    row.setAttribute("aria-posinset", number + 1);
    row.setAttribute("aria-setsize", state.shown.length);
    if (bad) row.classList.add("bad");
    if (i === state.chosen) { row.classList.add("chosen"); row.setAttribute("aria-selected", "true"); }
    if (asked && wanted[i] === 1) row.classList.add("pale");
    const what = make("div", "what"), most = narrow.matches ? 9 : 16, step = narrow.matches ? 10 : 15;
    what.style.paddingLeft = Math.min(state.depth[i], most) * step + "px";
    const fold = make("button", "fold", folded[i] && !asked ? "▸" : "▾");
    fold.tabIndex = -1;
    if (!size[i]) fold.classList.add("none");
    else { row.setAttribute("aria-expanded", folded[i] && !asked ? "false" : "true"); fold.setAttribute("aria-label", "fold or unfold"); }
    what.append(fold);
    if (state.depth[i] > most) what.append(make("span", "more", "+" + (state.depth[i] - most)));
    const dot = make("span", "dot k" + span.k, LETTERS[span.k]);
    dot.title = KINDS[span.k];
    const name = make("span", "name");
    marked(name, line(span.k < 3 ? span.n.replace(/^(invoke_agent|chat|execute_tool) /, "") : span.n)); // the sign before it says the rest
    what.append(dot, name);
    const said = [];
    if (bad) said.push("✗ " + line(span.x));
    if (span.t) said.push(span.t);
    if (folded[i] && !asked) said.push(size[i].toLocaleString("en") + " within");
    if (span.v.some((event) => event.n === "retinue.approval.parked")) said.push("waits for consent");
    if (span.v.some((event) => event.n === "retinue.handoff")) said.push("hands over");
    if (span.o.length) said.push("(" + span.o.length + " odd)");
    if (said.length) what.append(make("span", bad ? "more bad" : "more", said.join(" · ")));
    row.append(what, make("span", "took", length(span.e === null ? null : Math.max(0, span.e - span.s))), trackOf(span, bad));
    return row;
  }

  function trackOf(span, bad) {
    const track = make("div", "track"), wide = until - from, end = endOf(span);
    const left = Math.max(0, Math.min(1, (span.s - from) / wide)), right = Math.max(left, Math.min(1, (end - from) / wide));
    if (end < from || span.s > until) return track;
    const bar = make("div", "span k" + span.k + (bad ? " bad" : "") + (span.e === null ? " open" : ""));
    bar.style.left = "min(" + left * 100 + "%, 100% - 2px)";
    bar.style.width = "max(2px, " + (right - left) * 100 + "%)";
    track.append(bar);
    return track;
  }

  // -- choosing one

  function reveal(i) {
    let changed = false;
    for (let up = parent[i]; up >= 0; up = parent[up]) if (folded[up]) { folded[up] = 0; changed = true; }
    if (!state.shown.includes(i)) {
      state.query = find.value = "";
      state.errors = false;
      state.kinds[S[i].k] = true;
      from = 0;
      until = whole;
      graph();
      buttons();
      changed = true;
    }
    if (changed) choose();
  }
  function select(i, details) {
    if (i < 0 || i >= N) return;
    reveal(i);
    const before = rows.querySelector(".chosen");
    if (before) { before.classList.remove("chosen"); before.removeAttribute("aria-selected"); }
    state.chosen = i;
    rows.setAttribute("aria-activedescendant", "r" + i);
    const number = state.shown.indexOf(i), h = height(), top = rows.getBoundingClientRect().top + number * h;
    const head = at("bar").offsetHeight, foot = narrow.matches && !side.hidden ? innerHeight * 0.68 : 0;
    if (top < head) scrollBy(0, top - head - h);
    else if (top + h > innerHeight - foot) scrollBy(0, top + 2 * h - (innerHeight - foot));
    draw();
    const row = at("r" + i);
    if (row) { row.classList.add("chosen"); row.setAttribute("aria-selected", "true"); }
    if (details || !side.hidden) show(i);
  }
  function fold(i) {
    if (!size[i] || asked) return;
    folded[i] ^= 1;
    choose();
  }

  // -- everything about one

  function pair(list, name, value) {
    if (value === "" || value === null || value === undefined) return;
    list.append(make("dt", "", line(name)), make("dd", "", text(value)));
  }
  const TALK = ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"];
  function parsed(value) {
    if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return value;
    try { return JSON.parse(value); } catch { return value; }
  }
  function said(into, messages) {
    for (const message of messages) {
      const parts = Array.isArray(message.parts) ? message.parts : [message];
      into.append(make("div", "who", line(message.role || message.type || "")));
      for (const part of parts) {
        let told = part && typeof part === "object" ? (part.content ?? part) : part;
        if (told === part && part && part.type === "tool_call") {
          into.append(make("div", "who", "calls " + line(part.name) + " (" + line(part.id) + ")"));
          told = part.arguments;
        } else if (told === part && part && part.type === "tool_call_response") {
          into.append(make("div", "who", "result (" + line(part.id) + ")"));
          told = part.response ?? part.result;
        }
        into.append(make("pre", "", text(typeof told === "string" ? told : JSON.stringify(told ?? null, null, 1))));
      }
    }
  }
  function attributes(into, given) {
    const list = make("dl"), large = [];
    for (const name of Object.keys(given).sort()) {
      const value = TALK.includes(name) || name.startsWith("gen_ai.tool.call.") ? parsed(given[name]) : given[name];
      if (TALK.includes(name) && Array.isArray(value) && value.every((one) => one && typeof one === "object")) large.push([name, value, true]);
      else if (typeof value === "object" && value !== null && !(Array.isArray(value) && value.every((one) => typeof one !== "object"))) large.push([name, JSON.stringify(value, null, 1), false]);
      else if (words(value).length > 200 || words(value).includes("\n")) large.push([name, value, false]);
      else pair(list, name, Array.isArray(value) ? value.join(", ") : value);
    }
    into.append(list);
    for (const [name, value, talk] of large) {
      into.append(make("h3", "", line(name)));
      if (talk) said(into, value);
      else into.append(make("pre", "", text(value)));
    }
  }
  function link(i, words) {
    const made = make("button", "link", words);
    made.dataset.go = i;
    return made;
  }
  function show(i) {
    const span = S[i];
    side.replaceChildren();
    const close = make("button", "", "×");
    close.id = "close";
    close.setAttribute("aria-label", "close");
    const title = make("h2", "", text(span.n));
    side.append(close, title);
    if (span.x) side.append(make("p", "trouble", "✗ " + text(span.x)));
    for (const note of span.o) side.append(make("p", "about", "(" + text(note) + ")"));
    const acts = make("div", "acts");
    for (const [name, words] of [["zoom", "Zoom to its time"], ["all", "Whole time"]]) { const button = make("button", "", words); button.dataset.act = name; acts.append(button); }
    side.append(acts);
    const list = make("dl");
    pair(list, "kind", ["run of an agent", "call of a model", "call of a tool", "message"][span.k]);
    pair(list, "status", span.u);
    pair(list, "took", span.e === null ? "not ended" : length(Math.max(0, span.e - span.s)));
    pair(list, "begins", "+" + length(Math.max(0, span.s)) + " (" + stamp(span.s) + ")");
    pair(list, span.k === 1 ? "tokens, cost" : "where", span.t);
    pair(list, "system", span.y);
    pair(list, "span", span.i);
    side.append(list);
    if (Object.keys(span.a).length) { side.append(make("h3", "", "Attributes")); attributes(side, span.a); }
    if (span.v.length) {
      side.append(make("h3", "", "Events"));
      for (const event of span.v) { side.append(make("div", "who", "+" + length(Math.max(0, event.t)) + "  " + line(event.n))); attributes(side, event.a); }
    }
    side.append(make("h3", "", "Around it"));
    if (parent[i] >= 0) side.append(link(parent[i], "↑ " + line(S[parent[i]].n)));
    let count = 0;
    for (let child = i + 1; child < after[i]; child = after[child]) { if (count++ < 50) side.append(link(child, "↳ " + line(S[child].n))); }
    if (count > 50) side.append(make("p", "about", "and " + (count - 50).toLocaleString("en") + " more"));
    side.hidden = false;
    side.scrollTop = 0;
    document.body.classList.add("aside");
    graph();
  }
  function stamp(ms) {
    const date = new Date(data.began + ms);
    return isNaN(date) ? "?" : date.toISOString().replace("T", " ").replace("Z", " UTC");
  }
  function hide() {
    side.hidden = true;
    document.body.classList.remove("aside");
    graph();
    rows.focus({ preventScroll: true });
  }

  // -- the map: how many models, tools and messages at once; drag to zoom

  // Of what only waits for others, the others are counted.
  const works = (i) => !size[i] || S[i].k === 1 || S[i].k === 2;
  let busiest = 0;
  {
    const starts = [], ends = [];
    for (let i = 0; i < N; i++) if (works(i)) { starts.push(S[i].s); ends.push(endOf(S[i])); }
    starts.sort((a, b) => a - b);
    ends.sort((a, b) => a - b);
    for (let i = 0, done = 0; i < starts.length; i++) {
      while (done < i && ends[done] <= starts[i]) done++;
      busiest = Math.max(busiest, i + 1 - done);
    }
  }
  let drag = null;
  function graph() {
    const width = Math.max(1, box.clientWidth), high = box.clientHeight, scale = Math.min(devicePixelRatio || 1, 3), style = getComputedStyle(root);
    canvas.width = width * scale;
    canvas.height = high * scale;
    const pen = canvas.getContext("2d"), bins = Math.floor(width / 2);
    pen.scale(scale, scale);
    const layers = [1, 2, 0].map(() => new Float64Array(bins + 1)), layer = { 1: 0, 2: 1, 0: 2, 3: 2 };
    for (let i = 0; i < N; i++) {
      if (!works(i)) continue;
      const low = Math.min(bins - 1, Math.max(0, Math.floor((S[i].s / whole) * bins))), high = Math.min(bins, Math.max(low + 1, Math.ceil((endOf(S[i]) / whole) * bins)));
      layers[layer[S[i].k]][low]++;
      layers[layer[S[i].k]][high]--;
    }
    let most = 1;
    const sums = [0, 0, 0], stacks = [];
    for (let bin = 0; bin < bins; bin++) {
      for (let l = 0; l < 3; l++) sums[l] += layers[l][bin];
      stacks.push([...sums]);
      most = Math.max(most, sums[0] + sums[1] + sums[2]);
    }
    const colours = ["--model", "--tool", "--message"].map((name) => style.getPropertyValue(name));
    const unit = (high - 8) / most;
    stacks.forEach((stack, bin) => {
      let base = high - 2;
      stack.forEach((count, l) => { if (count) { pen.fillStyle = colours[l]; pen.fillRect(bin * 2, base - count * unit, 2, count * unit); base -= count * unit; } });
    });
    const range = drag ? [Math.min(drag.a, drag.b), Math.max(drag.a, drag.b)] : [from, until];
    if (drag || zoomed()) {
      pen.fillStyle = style.getPropertyValue("--back");
      pen.globalAlpha = 0.7;
      pen.fillRect(0, 0, (range[0] / whole) * width, high);
      pen.fillRect((range[1] / whole) * width, 0, width, high);
      pen.globalAlpha = 1;
      pen.strokeStyle = style.getPropertyValue("--ink");
      pen.strokeRect((range[0] / whole) * width + 0.5, 0.5, Math.max(1, ((range[1] - range[0]) / whole) * width - 1), high - 1);
    }
    hint.textContent = zoomed() ? "+" + length(from) + " to +" + length(until) + " of " + length(whole) + "; double-click for the whole time" : "at most " + busiest.toLocaleString("en") + " at once; drag to zoom";
    ticks();
  }
  function ticks() {
    axis.replaceChildren();
    const wide = axis.clientWidth, count = Math.max(2, Math.floor(wide / 110)), raw = (until - from) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
    for (let tick = Math.ceil(from / step) * step; tick < until; tick += step) {
      const left = ((tick - from) / (until - from)) * wide;
      if (wide - left < 60) break;
      const made = make("span", "", length(Math.max(0, tick)).replace(/^0 µs$/, "0"));
      made.style.left = left + "px";
      axis.append(made);
    }
  }
  function zoom(a, b) {
    const least = Math.max(whole / 1e6, 0.001);
    from = Math.max(0, Math.min(a, whole - least));
    until = Math.min(whole, Math.max(b, from + least));
    graph();
    choose();
  }
  const timeAt = (event) => { const around = box.getBoundingClientRect(); return Math.max(0, Math.min(1, (event.clientX - around.left) / around.width)) * whole; };
  box.addEventListener("pointerdown", (event) => { if (event.button === 0) { box.setPointerCapture(event.pointerId); drag = { a: timeAt(event), b: timeAt(event), x: event.clientX }; } });
  box.addEventListener("pointermove", (event) => { if (drag) { drag.b = timeAt(event); graph(); } });
  box.addEventListener("pointerup", (event) => {
    const done = drag;
    drag = null;
    if (done && Math.abs(event.clientX - done.x) > 5) zoom(Math.min(done.a, done.b), Math.max(done.a, done.b));
    else graph();
  });
  box.addEventListener("pointercancel", () => { drag = null; graph(); });
  box.addEventListener("dblclick", () => zoom(0, whole));

  // -- what people do

  function buttons() {
    for (const button of document.querySelectorAll(".chip")) button.setAttribute("aria-pressed", String(state.kinds[+button.dataset.kind]));
    at("only").setAttribute("aria-pressed", String(state.errors));
  }
  for (const button of document.querySelectorAll(".chip")) button.addEventListener("click", () => { state.kinds[+button.dataset.kind] = !state.kinds[+button.dataset.kind]; buttons(); choose(); });
  at("only").addEventListener("click", () => { state.errors = !state.errors; buttons(); choose(); });
  at("fold").addEventListener("click", () => { for (let i = 0; i < N; i++) folded[i] = size[i] > 0 && S[i].d > 0 ? 1 : 0; choose(); });
  at("unfold").addEventListener("click", () => { folded.fill(0); choose(); });
  at("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    graph();
  });
  let later = 0;
  find.addEventListener("input", () => { clearTimeout(later); later = setTimeout(() => { state.query = find.value.trim().toLowerCase(); choose(); }, 120); });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && asked) {
      const hits = state.shown.filter((i) => wanted[i] === 2), now = hits.indexOf(state.chosen);
      if (hits.length) select(hits[(now + (event.shiftKey ? hits.length - 1 : 1) + (now < 0 && event.shiftKey ? 1 : 0)) % hits.length], false);
    }
    if (event.key === "Escape") { find.value = state.query = ""; choose(); }
  });
  rows.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (!row) return;
    const i = +row.dataset.i;
    if (event.target.closest(".fold")) fold(i);
    else select(i, true);
    rows.focus({ preventScroll: true });
  });
  rows.addEventListener("dblclick", (event) => { const row = event.target.closest(".row"); if (row && !event.target.closest(".fold")) fold(+row.dataset.i); });
  rows.addEventListener("keydown", (event) => {
    const number = state.shown.indexOf(state.chosen), i = state.chosen, page = Math.max(1, Math.floor(innerHeight / height()) - 4);
    const to = { ArrowDown: number + 1, ArrowUp: Math.max(0, number - 1), PageDown: Math.min(state.shown.length - 1, number + page), PageUp: Math.max(0, number - page), Home: 0, End: state.shown.length - 1 }[event.key];
    if (to !== undefined) { if (to < state.shown.length) select(state.shown[to], false); }
    else if (event.key === "ArrowRight" && i >= 0) { if (folded[i]) fold(i); else if (size[i]) select(state.shown[number + 1], false); }
    else if (event.key === "ArrowLeft" && i >= 0) { if (size[i] && !folded[i] && !asked) fold(i); else if (parent[i] >= 0) select(parent[i], false); }
    else if ((event.key === "Enter" || event.key === " ") && i >= 0) select(i, true);
    else return;
    event.preventDefault();
  });
  side.addEventListener("click", (event) => {
    const go = event.target.closest("[data-go]"), act = event.target.closest("[data-act]");
    if (event.target.closest("#close")) hide();
    else if (go) select(+go.dataset.go, true);
    else if (act && act.dataset.act === "all") zoom(0, whole);
    else if (act) { const span = S[state.chosen], room = Math.max((endOf(span) - span.s) * 0.05, 0.001); zoom(span.s - room, endOf(span) + room); }
  });
  document.addEventListener("click", (event) => { const go = event.target.closest("[data-span]"); if (go) { const i = S.findIndex((span) => span.i === go.dataset.span); if (i >= 0) select(i, true); } });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !side.hidden && event.target !== find) hide();
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(event.target.tagName) && !event.ctrlKey && !event.metaKey) { event.preventDefault(); find.focus(); }
  });
  addEventListener("scroll", draw, { passive: true });
  let width = 0;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; graph(); place(); } else draw(); });
  narrow.addEventListener("change", place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", graph);
  at("toggle-sums").addEventListener("toggle", draw);
  width = innerWidth;
  buttons();
  graph();
  choose();
  document.body.dataset.ready = "yes";
})();
