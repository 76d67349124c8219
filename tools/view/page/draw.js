// A frame: lanes and labels on the lower canvas, selection and hovering on the upper canvas.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, Inter, "DejaVu Sans", sans-serif';

// Widths of letters at 10 pixels.
const letterWidths = new Map();
function widthOf(context, text, size) {
  let sum = 0;
  for (const letter of text) {
    if (!letterWidths.has(letter)) {
      context.font = `10px ${FONT}`;
      letterWidths.set(letter, context.measureText(letter).width);
    }
    sum += letterWidths.get(letter);
  }
  return sum * size / 10;
}

const picture = {lower: null, upper: null, overview: null, raster: null, paint: null};

function eachVisibleRow(visit) {
  for (const row of view.rows) {
    const y = screenY(row.y);
    if (y + row.height < AXIS || y > view.height) continue;
    visit(row, y);
  }
}

function drawLower() {
  const {paint, raster} = picture;
  const ratio = view.ratio;
  raster.pixels.fill(paint.surface);
  raster.labels.length = 0;
  eachVisibleRow((row) => { if (row.type === 'rank') rasterRow(row, ratio); });
  const context = raster.context;
  context.putImageData(raster.image, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawLabels(context, ratio);
  eachVisibleRow((row, y) => {
    if (row.type === 'rank') drawGutter(context, row, y); else drawHeading(context, row, y);
  });
  drawEnds(context);
  drawAxis(context);
}

function rasterRow(row, ratio) {
  const {paint, raster} = picture;
  const {t, rank} = row;
  const x0 = Math.round(view.gutter * ratio);
  const scale = plotWidth() * ratio / view.span;
  const x1 = Math.min(raster.width, Math.ceil(x0 + (t.makespan - view.t0) * scale));
  const top = Math.round(AXIS * ratio);
  for (const box of row.boxes) {
    const y0 = Math.round(screenY(box.y) * ratio);
    const y1 = y0 + Math.max(1, Math.round(box.height * ratio));
    const at = {t, t0: view.t0, scale, x0, x1, paint, y0: Math.max(top, y0),
                y1: Math.min(raster.height, y1), dim: view.critical,
                gap: Math.max(1, Math.round(ratio)), labels: 9 * ratio, labelHeight: 9 * ratio};
    if (at.y1 <= at.y0 || x1 <= x0) continue;
    if (box.lane === NONE) {
      fillBox(raster, x0, at.y1 - 1, x1, at.y1, paint.line);
      drawMemory(raster, t.memory[rank], {...at, y0}, mostMemory());
      continue;
    }
    // A row cut off at the top is drawn whole and then covered by the axis.
    at.y0 = Math.max(0, y0);
    const lane = laneOf(t, rank, box.lane);
    fillBox(raster, x0, at.y0, x1, at.y1, box.lane ? paint.band : paint.lane);
    drawLane(raster, lane, at);
    if (lane.pieces && box.height > 16) {
      const inset = Math.round(box.height * ratio * PIECE_INSET);
      drawPieces(raster, lane.pieces, {...at, y0: at.y0 + inset, y1: at.y1 - inset});
    }
  }
}

// Pieces of groups only where they can be told apart.
function drawPieces(raster, pieces, at) {
  const count = pieces.ref.length;
  let k = stretchAt(pieces, at.t0, 0), cleared = NONE;  // the last group whose ground is drawn
  for (; k < count && at.x0 + (pieces.start[k] - at.t0) * at.scale < at.x1; ++k) {
    const from = at.x0 + (pieces.start[k] - at.t0) * at.scale;
    const to = at.x0 + (pieces.end[k] - at.t0) * at.scale;
    if (to - from < 1) {
      k = Math.max(k, stretchAt(pieces, at.t0 + (from + 1 - at.x0) / at.scale, k) - 1);
      continue;
    }
    const [first] = groupOf(at.t, pieces.ref[k]);
    if (first !== cleared) {
      cleared = first;
      const begin = Math.max(at.x0, Math.round(at.x0 + (at.t.start[first] - at.t0) * at.scale));
      const end = Math.min(at.x1, Math.round(at.x0 + (at.t.end[first] - at.t0) * at.scale));
      if (end - at.gap > begin) {
        fillBox(raster, begin, at.y0, end - at.gap, at.y1, at.paint.lane);
      }
    }
    const x = Math.max(at.x0, Math.round(from)), end = Math.min(at.x1, Math.round(to));
    if (end > x) drawStretch(raster, pieces, k, x, end, at, to <= at.x1);
  }
}

function mostMemory() {
  let most = 1;
  for (const t of view.timelines) {
    for (const [peak] of (t.head.memory || {peaks: []}).peaks) most = Math.max(most, peak);
  }
  return most;
}

// Each label in the longest form that fits.
function drawLabels(context, ratio) {
  const {labels} = picture.raster, {paint} = picture;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  let font = '';
  for (let k = 0; k < labels.length; k += 7) {
    const [x0, x1, y0, y1] = [0, 1, 2, 3].map((n) => labels[k + n] / ratio);
    const i = labels[k + 4], part = labels[k + 5], t = view.timelines[labels[k + 6]];
    const most = Math.max(8, Math.min(13, Math.floor((y1 - y0) * 0.7)));
    const fitted = fittingLabel(context, labelTexts(t, i, part), most, x1 - x0 - 3);
    font = fitted.measured ? '' : font;
    if (!fitted.text) continue;
    const {text, size} = fitted;
    const wanted = `${size}px ${FONT}`;
    if (wanted !== font) context.font = font = wanted;
    const faint = view.critical && !t.onPath[i];
    context.fillStyle = faint ? paint.css.soft : paint.text[toneOf(t, i)];
    context.fillText(text, (x0 + x1) / 2, (y0 + y1) / 2 + 0.5);
  }
}

// The possible labels of an event, the longest first.
function labelTexts(t, i, part) {
  if (part !== NONE) return [partName(t, part).slice(2)];
  const full = actionName(t, i);
  if (t.microbatch[i] < 0) return [full];
  const number = String(microbatchOfStep(t, i)), short = t.head.kinds[t.kind[i]][0] + number;
  // With pipes the name counts in its pipe; on the picture all numbers are of the whole step.
  if (!isCompute(t, i) && !isCopy(t, i)) return [hasPipes(t) ? short : full];
  return hasPipes(t) ? [short, number] : [full, short, number];
}

// The first text that fits in a good size, or else in a small size; `measured` if the context's
// font was changed.
function fittingLabel(context, texts, most, room) {
  const known = letterWidths.size;
  for (const least of [11, 9]) {
    for (const text of texts) {
      const size = Math.min(most, Math.floor(room / widthOf(context, text, 1)));
      if (size >= Math.min(most, least)) return {text, size, measured: letterWidths.size > known};
    }
  }
  return {text: '', size: 0, measured: letterWidths.size > known};
}

function drawGutter(context, row, y) {
  const {paint} = picture, {t, rank} = row;
  const head = t.head.ranks[rank];
  const box = row.boxes[0], middle = y + box.height / 2;
  const size = Math.max(8, Math.min(13, box.height * 0.85));
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillStyle = paint.css.ink;
  context.font = `${box.height > 14 ? 600 : 500} ${size}px ${FONT}`;
  if (head.lanes.length > 1 && box.height >= 9) drawFold(context, 11, middle, showsLanes(t, rank));
  context.fillText(box.height > 14 ? `rank ${rank}` : String(rank), 20, middle + 0.5);
  const busy = t.makespan ? head.busy / t.makespan : 0;
  const barFrom = 76, barTo = view.gutter - 46, tall = Math.min(8, box.height * 0.66);
  if (barTo > barFrom + 20) {
    drawBusyBar(context, t, head, barFrom, barTo, middle - tall / 2, tall);
  }
  context.textAlign = 'right';
  context.fillStyle = paint.css.soft;
  context.font = `${Math.min(11, size)}px ${FONT}`;
  const percent = `${(100 * busy).toFixed(1)}`;
  if (view.gutter > 120) context.fillText(percent, view.gutter - 12, middle + 0.5);
  context.font = `9px ${FONT}`;
  for (const other of row.boxes.slice(1)) {
    const at = screenY(other.y) + other.height / 2;
    if (other.lane === NONE && other.height < 14) continue;
    const name = other.lane === NONE ? 'memory' : head.lanes[other.lane][1];
    const peak = other.lane === NONE ? t.head.memory.peaks[rank][0] : 0;
    const words = other.lane === NONE ? `memory, peak ${amountShort(t, peak)}` : laneWords(name);
    context.fillText(words, view.gutter - 12, at + 0.5);
  }
}

const laneWords = (name) =>
  name.replace('->', ' \u2192 ').replace(/^(\d+)-(\d+)$/, '$1 \u2194 $2');
const amountShort = (t, amount) =>
  (t.head.memory.bytes ? amountWords(t, amount) : String(activationsOf(t, amount)));

function drawFold(context, x, y, open) {
  context.beginPath();
  if (open) {
    context.moveTo(x - 3.5, y - 2); context.lineTo(x + 3.5, y - 2); context.lineTo(x, y + 3);
  } else {
    context.moveTo(x - 2, y - 3.5); context.lineTo(x + 3, y); context.lineTo(x - 2, y + 3.5);
  }
  context.save();
  context.fillStyle = picture.paint.css.soft;
  context.fill();
  context.restore();
}

// The rank's step: busy, then its causes, each of its length.
function drawBusyBar(context, t, head, x0, x1, y, height) {
  const {paint} = picture;
  const width = x1 - x0;
  let x = x0 + width * head.busy / Math.max(1, t.makespan);
  context.fillStyle = paint.css.soft;
  context.fillRect(x0, y, x - x0, height);
  head.causes.forEach((ns, cause) => {
    if (!ns) return;
    const wide = width * ns / t.makespan;
    context.fillStyle = paint.causeCss[cause][isQuiet(cause) ? 1 : 0];
    context.fillRect(x, y, wide, height);
    x += wide;
  });
}

function drawHeading(context, row, y) {
  const {paint} = picture, {t} = row;
  const letter = 'AB'[t.index] || String(t.index + 1);
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  const middle = y + HEADING / 2 - 1;
  context.fillStyle = paint.css.ink;
  context.font = `700 12px ${FONT}`;
  context.fillText(letter, 8, middle);
  context.font = `600 12px ${FONT}`;
  const title = `${t.head.title}`;
  context.fillText(title, 24, middle);
  const wide = context.measureText(title).width;
  context.fillStyle = paint.css.soft;
  context.font = `12px ${FONT}`;
  const {origin, bubble} = t.head;
  context.fillText(`${origin}, ${timeWords(t.makespan)}, bubble ${shareWords(bubble)}` +
                   rankShares(t.head), 34 + wide, middle);
}

// A line at each timeline's end.
function drawEnds(context) {
  const {paint} = picture;
  for (const t of view.timelines) {
    const rows = view.rows.filter((row) => row.t === t);
    const x = xOf(t.makespan);
    if (x < view.gutter || x > view.width) continue;
    if (!rows.length) continue;
    const last = rows[rows.length - 1], under = rows[0].type === 'heading' ? HEADING - 4 : 0;
    const from = Math.max(AXIS, screenY(rows[0].y + under));
    context.fillStyle = paint.css.soft;
    context.fillRect(Math.round(x), from, 1, screenY(last.y + last.height) - from);
  }
}

function drawAxis(context) {
  const {paint} = picture;
  context.fillStyle = paint.css.surface;
  context.fillRect(0, 0, view.width, AXIS);
  context.fillStyle = paint.css.line;
  context.fillRect(0, AXIS - 1, view.width, 1);
  const step = tickStep(view.span, plotWidth() / 110);
  context.font = `11px ${FONT}`;
  context.textBaseline = 'middle';
  for (let k = Math.ceil(view.t0 / step - 1e-9); k * step <= view.t0 + view.span; ++k) {
    const x = Math.round(xOf(k * step));
    context.fillStyle = paint.css.line;
    context.fillRect(x, AXIS - 7, 1, 7);
    context.fillStyle = paint.css.soft;
    const text = tickWords(k * step, step, view.t0 + view.span);
    const half = context.measureText(text).width / 2;
    const place = Math.min(view.width - half - 2, Math.max(x, view.gutter + half));
    context.textAlign = 'center';
    context.fillText(text, place, AXIS / 2 - 2);
  }
  context.textAlign = 'right';
  if (view.gutter > 120) context.fillText('busy %', view.gutter - 12, AXIS / 2 - 2);
}
