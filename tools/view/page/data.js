// The page's data -> arrays. The writer is page_data.cc; page_data.h describes each column.

const NONE = -1;

// The kinds of actions by number, as in actions.def: F, B, I, W, R, UPDATE and a schedule's own
// computations first; own copies follow D and U, own actions on the network come last.
const COMPUTE_KINDS = 12;
const UPDATE = 5, SEND_F = 12, RECV_F = 13, SEND_B = 14, RECV_B = 15, OFFLOAD = 16, FETCH = 20,
      UNSHARD = 24, REDUCE_GRAD = 26;
const JOINED = 64;  // added to a kind

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// The numbers of a column, unfolded. Numbers beyond 2^31 are why shifts alone will not do.
function readColumn(bytes, begin, count, out) {
  let at = begin;
  for (let i = 0; i < count; ++i) {
    let byte = bytes[at++];
    if (byte < 128) {
      out[i] = byte & 1 ? -(byte + 1) / 2 : byte >> 1;
      continue;
    }
    let value = byte & 127, scale = 128;
    do {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    out[i] = value % 2 ? -(value + 1) / 2 : value / 2;
  }
  return out;
}

function addUp(column) {
  let sum = 0;
  for (let i = 0; i < column.length; ++i) column[i] = sum += column[i];
  return column;
}

// A timeline: its header `head`, and typed arrays by event and by idle stretch.
function readTimeline(head, bytes, index) {
  const ints = (name) => {
    const [begin, count] = head.columns[name] || [0, 0];
    return readColumn(bytes, begin, count, new Int32Array(count));
  };
  const floats = (name) => {
    const [begin, count] = head.columns[name] || [0, 0];
    return readColumn(bytes, begin, count, new Float64Array(count));
  };
  const t = {head, index, n: head.events, ranks: head.ranks.length, makespan: head.makespan};
  const kinds = ints('kind');
  t.kind = new Uint8Array(t.n);
  t.joined = new Uint8Array(t.n);
  for (let i = 0; i < t.n; ++i) {
    t.kind[i] = kinds[i] % JOINED;
    t.joined[i] = kinds[i] >= JOINED ? 1 : 0;
  }
  t.lane = Uint16Array.from(ints('lane'));
  t.stage = addUp(ints('stage'));
  t.microbatch = addUp(ints('microbatch'));
  t.other = ints('other');
  readTimes(t, floats('start'), floats('length'));
  t.observedStart = floats('observed_start');
  t.observedEnd = floats('observed_end');
  for (let i = 0; i < t.observedStart.length; ++i) {
    t.observedStart[i] += t.start[i];
    t.observedEnd[i] += t.end[i];
  }
  readNeeds(t, ints);
  readIdle(t, ints, floats);
  t.critical = addUp(ints('critical'));
  t.onPath = new Uint8Array(t.n);
  for (const i of t.critical) t.onPath[i] = 1;
  for (const i of t.critical) {
    for (let k = i + 1; isCompute(t, i) && k < t.n && t.joined[k]; ++k) t.onPath[k] = 1;
  }
  t.send = addUp(ints('send'));
  t.recv = ints('recv');
  t.otherEnd = new Int32Array(t.n).fill(NONE);
  for (let i = 0; i < t.send.length; ++i) {
    t.recv[i] += t.send[i];
    t.otherEnd[t.send[i]] = t.recv[i];
    t.otherEnd[t.recv[i]] = t.send[i];
    if (t.onPath[t.send[i]]) t.onPath[t.recv[i]] = 1;
  }
  readParts(t, ints, floats);
  readMemory(t, ints, floats);
  t.place = addUp(ints('place'));
  t.placeLine = addUp(ints('place_line'));
  t.placeColumn = ints('place_column');
  t.placeLength = ints('place_length');
  t.iteration = addUp(ints('iteration'));
  t.loopOuter = addUp(ints('loop_outer'));
  t.loopPass = addUp(ints('loop_pass'));
  t.lines = new Map(head.lines || []);
  return t;
}

function readTimes(t, start, length) {
  t.start = start;
  t.end = length;
  t.rankOf = new Int32Array(t.n);
  const lengths = new Float64Array(JOINED);
  let last = 0;
  for (let r = 0; r < t.ranks; ++r) {
    const end = r + 1 < t.ranks ? t.head.ranks[r + 1].first : t.n;
    let now = 0;
    for (let i = t.head.ranks[r].first; i < end; ++i) {
      const compute = isCompute(t, i);
      last = start[i] += t.joined[i] && compute ? last : now;
      t.end[i] = last + (lengths[t.kind[i]] += length[i]);
      t.rankOf[i] = r;
      if (compute) now = t.end[i];
    }
  }
}

function readNeeds(t, ints) {
  for (const name of ['giver', 'own', 'via']) {
    const column = t[name] = ints(name);
    for (let i = 0; i < column.length; ++i) column[i] = column[i] === 0 ? NONE : column[i] + i;
  }
}

// By stretch: idle.cause, start, end, waiting, for, rank. By event: idleBefore, the last stretch
// that ends at the event's start.
function readIdle(t, ints, floats) {
  const counts = ints('idle_count');
  const idle = t.idle = {
    cause: Uint8Array.from(ints('idle_cause')),
    start: addUp(floats('idle_start')),
    end: floats('idle_length'),
    waiting: addUp(ints('idle_waiting')),
    for: addUp(ints('idle_for')),
  };
  idle.first = new Int32Array(t.ranks + 1);
  for (let r = 0; r < t.ranks; ++r) idle.first[r + 1] = idle.first[r] + counts[r];
  idle.rank = new Int32Array(idle.cause.length);
  t.idleBefore = new Map();
  for (let r = 0; r < t.ranks; ++r) {
    for (let i = idle.first[r]; i < idle.first[r + 1]; ++i) {
      idle.end[i] += idle.start[i];
      idle.rank[i] = r;
      if (idle.waiting[i] < 0) continue;
      if (!t.idleBefore.has(idle.waiting[i])) t.idleBefore.set(idle.waiting[i], []);
      t.idleBefore.get(idle.waiting[i]).push(i);
    }
  }
}

function readParts(t, ints, floats) {
  const event = addUp(ints('part_event'));
  const parts = t.parts = {event, name: ints('part_name'), layer: ints('part_layer'),
                           start: floats('part_start'), end: floats('part_length')};
  for (let i = 0; i < event.length; ++i) {
    parts.start[i] += t.start[event[i]];
    parts.end[i] += parts.start[i];
  }
}

function readMemory(t, ints, floats) {
  const counts = ints('memory_count');
  const times = floats('memory_time'), amounts = floats('memory_amount');
  t.memory = [];
  let at = 0;
  for (const count of counts) {
    t.memory.push({time: addUp(times.subarray(at, at + count)),
                   amount: addUp(amounts.subarray(at, at + count))});
    at += count;
  }
}

// "3", or "up[1]" in a schedule with pipes.
function stageName(t, stage) {
  for (const [name, first, stages] of t.head.pipes) {
    if (stage >= first && stage < first + stages) return `${name}[${stage - first}]`;
  }
  return String(stage);
}

// The pipe of a stage; 0 without pipes.
function pipeOf(t, stage) {
  const found = t.head.pipes.findIndex(([, first, stages]) =>
    stage >= first && stage < first + stages);
  return Math.max(0, found);
}

const hasPipes = (t) => t.head.pipes.length > 1;

// True for an event on a slice of a microbatch, whose number counts slices.
const isSlice = (t, i) => t.head.slices > 1 && t.kind[i] !== UPDATE && t.microbatch[i] >= 0;

// "3", or "3.1" of a slice: a number of events like this one.
const numberWords = (t, i, number) => (isSlice(t, i)
  ? `${Math.floor(number / t.head.slices)}.${number % t.head.slices}` : String(number));

// The event's microbatch, numbered through the whole step; names of actions count in their pipe.
function microbatchOfStep(t, i) {
  if (t.kind[i] === UPDATE) return t.microbatch[i];  // a step
  return numberWords(t, i,
    t.microbatch[i] + (hasPipes(t) ? t.head.pipes[pipeOf(t, t.stage[i])][3] : 0));
}

// "3F7", "3F7.1"; "0SEND_F7>2" where stages are no chain.
function actionName(t, i) {
  const microbatch = t.microbatch[i] < 0 ? '' : numberWords(t, i, t.microbatch[i]);
  const names = t.other.length > 0 && t.other[i] >= 0 && (isSend(t, i) || isRecv(t, i));
  const peer = names ? `>${t.other[i]}` : '';
  return stageName(t, t.stage[i]) + t.head.kinds[t.kind[i]][0] + microbatch + peer;
}

const isCompute = (t, i) => t.kind[i] < COMPUTE_KINDS;
const isSend = (t, i) => t.kind[i] === SEND_F || t.kind[i] === SEND_B;
const isRecv = (t, i) => t.kind[i] === RECV_F || t.kind[i] === RECV_B;
const isCopy = (t, i) => t.kind[i] >= OFFLOAD && t.kind[i] < UNSHARD;

// The first part of the computation's group, and the number of parts.
function groupOf(t, i) {
  while (t.joined[i]) --i;
  let end = i + 1;
  while (end < t.n && t.joined[end]) ++end;
  return [i, end - i];
}

// The event with this action's name in a timeline; NONE if missing.
function findAction(t, text) {
  const match = /^\s*(?:([^\s\[\]]+)\[(\d+)\]|(\d+))\s*([A-Za-z_]+?)\s*(\d*)(?:\.(\d+))?\s*$/.exec(text);
  if (!match) return NONE;
  let stage = Number(match[3] || match[2]);
  if (match[1] !== undefined) {
    const pipe = t.head.pipes.find((p) => p[0] === match[1]);
    if (!pipe || stage >= pipe[2]) return NONE;
    stage += pipe[1];
  }
  const kind = t.head.kinds.findIndex((k) => k[0] === match[4].toUpperCase());
  const microbatch = match[5] === '' ? -1 : Number(match[5]), slice = Number(match[6] || 0);
  for (let i = 0; i < t.n; ++i) {
    if (t.stage[i] !== stage || t.kind[i] !== kind) continue;
    const number = isSlice(t, i) ? microbatch * t.head.slices + slice : microbatch;
    if (t.microbatch[i] === number) return i;
  }
  return NONE;
}
