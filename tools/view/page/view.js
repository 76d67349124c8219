// The part of the timelines on the screen: time to the right, rows downwards. All lengths here are
// CSS pixels; the raster multiplies by the screen's ratio.

const AXIS = 26;     // height of the axis
const HEADING = 26;  // of the line above a timeline, if two are shown
const PAD = 10;      // at the right end of time

const view = {
  timelines: [],
  t0: 0, span: 1,       // what of time is visible, in nanoseconds
  longest: 1,           // the longest makespan
  scrollY: 0, width: 800, height: 400, gutter: 172, ratio: 1,
  rowHeight: 0,         // of the compute lane; 0: as fits
  lanes: true, memory: true, critical: false, messages: false,
  folds: new Map(),     // "timeline rank" -> shown, where it differs from `lanes`
  rows: [], rowOf: [], contentHeight: 0,
  roomy: 1,             // how much higher rows are than they need to be, to fill the screen
  selected: null, hovered: null,  // {t, event} or {t, idle}
};

const plotWidth = () => view.width - view.gutter - PAD;
const xOf = (time) => view.gutter + (time - view.t0) / view.span * plotWidth();
const timeAt = (x) => view.t0 + (x - view.gutter) / plotWidth() * view.span;

function clampView() {
  const least = Math.min(view.longest, 20);
  view.span = Math.min(view.longest, Math.max(least, view.span));
  view.t0 = Math.min(view.longest - view.span, Math.max(0, view.t0));
  const most = Math.max(0, view.contentHeight - (view.height - AXIS));
  view.scrollY = Math.min(most, Math.max(0, view.scrollY));
}

function zoomAt(time, factor) {
  const share = (time - view.t0) / view.span;
  view.span = Math.min(view.longest, Math.max(Math.min(view.longest, 20), view.span * factor));
  view.t0 = time - share * view.span;
  clampView();
}

function showTime(from, to) {
  view.span = Math.max(20, to - from);
  view.t0 = from;
  clampView();
}

const showsLanes = (t, rank) => view.folds.get(`${t.index} ${rank}`) ?? view.lanes;

const laneHeight = (kind) => Math.round([0, 9, 11, 9, 9][kind] * Math.min(1.5, view.roomy));

// The height of a rank besides its compute lane.
function extrasOf(t, rank) {
  let height = 0;
  if (showsLanes(t, rank)) {
    t.head.ranks[rank].lanes.forEach(([kind], l) => { if (l) height += laneHeight(kind) + 2; });
  }
  if (view.memory && t.memory.length) height += memoryHeight() + 3;
  return height;
}

const rankCount = () => view.timelines.reduce((sum, t) => sum + t.ranks, 0);
const memoryHeight = () =>
  Math.round((rankCount() <= 6 ? 30 : rankCount() <= 16 ? 18 : 10) * view.roomy);

// The height of a compute lane at which all ranks fit, within reason. Sets `roomy`.
function fittingHeight() {
  view.roomy = 1;
  const least = heightLeft();
  if (least <= 46) return Math.max(rankCount() > 24 ? 9 : 18, Math.floor(least));
  for (view.roomy = 1.8; view.roomy > 1; view.roomy -= 0.1) {
    if (heightLeft() >= 46 * view.roomy) break;
  }
  return Math.floor(Math.min(46 * view.roomy, heightLeft()));
}

// The height left for a rank's compute lane.
function heightLeft() {
  let extras = 0;
  for (const t of view.timelines) {
    for (let r = 0; r < t.ranks; ++r) extras += extrasOf(t, r);
  }
  const ranks = rankCount(), timelines = view.timelines.length;
  const headings = timelines > 1 ? HEADING * timelines : 0;
  const gaps = ranks * rowGap();
  return (view.height - AXIS - headings - extras - gaps - topGap() - 4) / Math.max(1, ranks);
}

const rowGap = () => (rankCount() > 24 ? 2 : rankCount() > 10 ? 5 : 14);
const topGap = () => (rankCount() > 10 ? 4 : 14);

// Rows from the top to the bottom: {type: 'heading' | 'rank', t, rank, y, height, boxes}, a box
// being {lane, y, height} with lane NONE for the memory curve.
function layOut() {
  const fitting = fittingHeight(), compute = view.rowHeight || fitting;
  const rows = [];
  view.rowOf = view.timelines.map(() => []);
  let y = view.timelines.length > 1 ? 2 : topGap();
  for (const t of view.timelines) {
    if (view.timelines.length > 1) {
      rows.push({type: 'heading', t, y, height: HEADING, boxes: []});
      y += HEADING;
    }
    for (let rank = 0; rank < t.ranks; ++rank) {
      const row = {type: 'rank', t, rank, y, boxes: []};
      const add = (lane, height, gap) => {
        row.boxes.push({lane, y, height});
        y += height + gap;
      };
      add(0, compute, 2);
      if (showsLanes(t, rank)) {
        t.head.ranks[rank].lanes.forEach(([kind], l) => { if (l) add(l, laneHeight(kind), 2); });
      }
      if (view.memory && t.memory.length) add(NONE, memoryHeight(), 1);
      y += rowGap() - 2;
      row.height = y - row.y - rowGap() + 2;
      view.rowOf[t.index][rank] = row;
      rows.push(row);
    }
  }
  view.rows = rows;
  view.contentHeight = y + 4;
  clampView();
}

// A row's place on the screen.
const screenY = (y) => AXIS + y - view.scrollY;

const rowOf = (t, rank) => view.rowOf[t.index][rank];

// The box of an event on the screen: {x0, x1, y0, y1}, its lane, or the rank's compute lane where
// its own is folded; a part of a group has its slice.
function boxOf(t, i) {
  const row = rowOf(t, t.rankOf[i]);
  const own = row.boxes.find((box) => box.lane === t.lane[i]);
  const box = own || row.boxes[0];
  let y0 = screenY(box.y), y1 = y0 + box.height;
  if (isCompute(t, i)) {
    const [first, parts] = groupOf(t, i);
    const height = box.height / parts;
    y0 += (i - first) * height;
    y1 = y0 + height;
  }
  return {x0: xOf(t.start[i]), x1: xOf(t.end[i]), y0, y1, folded: !own};
}

// The contents of a place of the screen: {t, rank, row, lane, event, idle, part, gutter}, with NONE
// for missing ones; null outside of all ranks.
function hitAt(x, y) {
  if (y < AXIS) return null;
  const down = y - AXIS + view.scrollY;
  const row = view.rows.find((r) => down >= r.y && down < r.y + r.height);
  if (!row || row.type !== 'rank') return null;
  const hit = {t: row.t, rank: row.rank, row, lane: NONE, event: NONE, idle: NONE, part: NONE,
               gutter: x < view.gutter};
  const box = row.boxes.find((b) => down >= b.y - 1 && down < b.y + b.height + 1);
  if (!box || hit.gutter) return hit;
  hit.box = box;
  hit.time = timeAt(x);
  hit.lane = box.lane;
  if (box.lane === NONE) return hit;
  const lane = laneOf(row.t, row.rank, box.lane);
  const near = view.span / plotWidth() * (box.lane ? 3 : 0.5);
  let k = stretchAt(lane, hit.time, 0);
  if (k < lane.ref.length && lane.start[k] > hit.time + near) return hit;
  if (k >= lane.ref.length) return hit;
  const ref = lane.ref[k];
  if (ref < 0) {
    hit.idle = -1 - ref;
    return hit;
  }
  hit.event = ref;
  if (lane.part) hit.part = lane.part[k];
  if (box.lane === 0) {
    const [first, parts] = groupOf(row.t, ref);
    const slice = Math.floor((down - box.y) / box.height * parts);
    hit.event = first + Math.min(parts - 1, Math.max(0, slice));
  }
  return hit;
}

// Moves the view to an event, without a jump if the event is visible already.
function reveal(t, i) {
  const length = Math.max(1, t.end[i] - t.start[i]);
  if (view.span > length * plotWidth() / 6) view.span = length * plotWidth() / 60;
  if (t.start[i] < view.t0 || t.end[i] > view.t0 + view.span || view.span < length) {
    if (view.span < length) view.span = Math.min(view.longest, 2 * length);
    view.t0 = (t.start[i] + t.end[i]) / 2 - view.span / 2;
  }
  const row = rowOf(t, t.rankOf[i]);
  const top = row.y - view.scrollY, most = view.height - AXIS;
  if (top < 0) view.scrollY = row.y - 8;
  if (top + row.height > most) view.scrollY = row.y + row.height - most + 8;
  clampView();
}
