// The upper canvas: the critical path, messages, the hovered and the selected event with its
// producers and consumers.

function drawUpper() {
  const context = picture.upper;
  context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  context.save();
  context.beginPath();
  context.rect(view.gutter, AXIS, view.width - view.gutter, view.height - AXIS);
  context.clip();
  for (const t of view.timelines) {
    if (view.messages) drawMessages(context, t);
    if (view.critical) drawPath(context, t);
  }
  drawCursor(context);
  if (view.selected) drawSelection(context, view.selected);
  if (view.hovered) outline(context, boxOfSpot(view.hovered), 1.5, picture.paint.css.select);
  context.restore();
}

// A spot is {t, event} or {t, idle}.
function boxOfSpot(spot) {
  if (spot.event !== NONE) return boxOf(spot.t, spot.event);
  const {t, idle} = spot;
  const row = rowOf(t, t.idle.rank[idle]);
  const y0 = screenY(row.boxes[0].y);
  return {x0: xOf(t.idle.start[idle]), x1: xOf(t.idle.end[idle]), y0, y1: y0 + row.boxes[0].height};
}

function outline(context, box, width, color) {
  const x0 = Math.max(box.x0, view.gutter - 9), x1 = Math.min(box.x1, view.width + 9);
  if (x1 < x0) return;
  context.lineWidth = width + 2;
  context.strokeStyle = picture.paint.css.surface;
  const wide = Math.max(2, x1 - x0);
  context.strokeRect(x0, box.y0, wide, box.y1 - box.y0);
  context.lineWidth = width;
  context.strokeStyle = color;
  context.strokeRect(x0, box.y0, wide, box.y1 - box.y0);
}

const rowIsVisible = (t, i) => {
  const row = rowOf(t, t.rankOf[i]);
  const y = screenY(row.y);
  return y + row.height >= AXIS && y <= view.height;
};

// A curve from a value's producer to its consumer.
function curve(context, x0, y0, x1, y1) {
  const bend = Math.min(60, Math.max(0, x1 - x0) / 2);
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
}

// The same within a rank: above the events between.
function arch(context, one, other) {
  const top = Math.min(one.y0, other.y0), rise = Math.min(11, 4 + Math.abs(other.x0 - one.x1) / 8);
  context.moveTo(one.x1 - 2, one.y0);
  context.bezierCurveTo(one.x1 + 2, top - rise * 1.3, other.x0 - 2, top - rise * 1.3,
                        other.x0 + 2, other.y0);
}

const middleOf = (box) => (box.y0 + box.y1) / 2;

// All messages in sight, unless they are too many to be told apart.
function drawMessages(context, t) {
  const most = 1500;
  indexMessages(t);
  const from = lowerBound(t.messageStart, view.t0 - t.longestMessage);
  const to = lowerBound(t.messageStart, view.t0 + view.span);
  t.tooManyMessages = to - from > most;
  if (t.tooManyMessages) return;
  context.lineWidth = 1;
  for (const gradient of [false, true]) {
    context.beginPath();
    for (let k = from; k < to; ++k) {
      const send = t.send[t.messageOrder[k]], recv = t.recv[t.messageOrder[k]];
      if ((t.kind[send] === SEND_B) !== gradient) continue;
      if (!rowIsVisible(t, send) && !rowIsVisible(t, recv)) continue;
      const one = boxOf(t, send), other = boxOf(t, recv);
      curve(context, one.x0, middleOf(one), other.x1, middleOf(other));
    }
    const {theme} = picture.paint;
    context.strokeStyle = css(mix(gradient ? fromOklch(0.68, 0.15, 60) : fromOklch(0.6, 0.13, 245),
                                  theme.ink, 0.25));
    context.stroke();
  }
}

function indexMessages(t) {
  if (t.messageOrder) return;
  t.messageOrder = Int32Array.from(t.send, (_, k) => k);
  t.messageOrder.sort((a, b) => t.start[t.send[a]] - t.start[t.send[b]]);
  t.messageStart = Float64Array.from(t.messageOrder, (k) => t.start[t.send[k]]);
  t.longestMessage = 0;
  for (const i of t.send) t.longestMessage = Math.max(t.longestMessage, t.end[i] - t.start[i]);
}

// The critical path as a line along the lower edges of its computations. In a column of pixels with
// many of them, the line goes from the highest to the lowest.
function drawPath(context, t) {
  const {paint} = picture;
  context.beginPath();
  let column = NONE, low = 0, high = 0, points = 0;
  const go = (x, y) => {
    if (points++) context.lineTo(x, y); else context.moveTo(x, y);
  };
  const flush = () => {
    if (column === NONE) return;
    go(column, low);
    if (high > low) go(column, high);
    column = NONE;
  };
  for (let k = firstOnPath(t); k < t.critical.length; ++k) {
    const i = t.critical[k];
    if (!isCompute(t, i)) continue;
    const {boxes: [box]} = rowOf(t, t.rankOf[i]);
    const y = screenY(box.y + box.height) - 1;
    const x0 = xOf(t.start[i]), x1 = xOf(t.end[i]);
    if (x1 - x0 > 1.5) {
      flush();
      go(x0, y);
      go(x1, y);
    } else if (column !== NONE && Math.floor(x0) === Math.floor(column)) {
      low = Math.min(low, y);
      high = Math.max(high, y);
    } else {
      flush();
      column = x0;
      low = high = y;
    }
    if (t.start[i] > view.t0 + view.span) break;
  }
  flush();
  // A long line is thin: thin lines cost less, and hide less.
  const long = points > 400;
  context.lineJoin = long ? 'bevel' : 'round';
  if (!long) {
    context.lineWidth = 4;
    context.strokeStyle = paint.css.surface;
    context.stroke();
  }
  context.lineWidth = long ? 1 : 1.75;
  context.strokeStyle = paint.css.accent;
  context.stroke();
}

// The first index on the path that is on the screen: events on the path rise in time.
function firstOnPath(t) {
  let low = 0, high = t.critical.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (t.end[t.critical[middle]] < view.t0) low = middle + 1; else high = middle;
  }
  return Math.max(0, low - 2);
}

// A line at the pointer's time, to compare ranks.
function drawCursor(context) {
  if (view.pointerX === undefined || view.pointerX < view.gutter) return;
  context.fillStyle = picture.paint.css.soft;
  context.globalAlpha = 0.45;
  context.fillRect(Math.round(view.pointerX), AXIS, 1, view.height - AXIS);
  context.globalAlpha = 1;
}

// Computations and copies that consume the values of event `i`.
function usersOf(t, i) {
  const users = [];
  for (let k = 0; k < t.giver.length; ++k) {
    if (t.giver[k] === i || t.own[k] === i) users.push(k);
  }
  return users;
}

// The links of an event: {needs, users, messages: [[send, recv, maker, user]]}.
function linksOf(t, i) {
  if (t.links && t.links.event === i) return t.links;
  const links = {event: i, needs: [], users: [], messages: []};
  t.links = links;
  if (!t.giver.length) return links;
  if (isCompute(t, i) || isCopy(t, i)) {
    for (const need of [t.giver[i], t.own[i]]) if (need !== NONE) links.needs.push(need);
    links.users = usersOf(t, i);
    if (t.via[i] !== NONE) links.messages.push([t.otherEnd[t.via[i]], t.via[i], t.giver[i], i]);
    for (const user of links.users) {
      if (t.giver[user] !== i || t.via[user] === NONE) continue;
      links.messages.push([t.otherEnd[t.via[user]], t.via[user], i, user]);
    }
  } else if (t.otherEnd[i] !== NONE) {
    const send = isSend(t, i) ? i : t.otherEnd[i], recv = t.otherEnd[send];
    for (let k = 0; k < t.via.length; ++k) {
      if (t.via[k] !== recv) continue;
      links.messages.push([send, recv, t.giver[k], k]);
      links.needs.push(t.giver[k]);
      links.users.push(k);
    }
    if (!links.messages.length) links.messages.push([send, recv, NONE, NONE]);
  }
  return links;
}

function drawSelection(context, spot) {
  const {paint} = picture, {t} = spot;
  if (spot.event === NONE) {
    outline(context, boxOfSpot(spot), 2, paint.css.select);
    return;
  }
  const links = linksOf(t, spot.event);
  const strokes = [];
  for (const [send, recv, maker, user] of links.messages) {
    const out = boxOf(t, send), into = boxOf(t, recv);
    for (const box of [out, into]) if (!box.folded) outline(context, box, 1.5, paint.css.select);
    const stops = [];
    if (maker !== NONE) stops.push([boxOf(t, maker).x1, middleOf(boxOf(t, maker))]);
    if (!out.folded || maker === NONE) stops.push([out.x0, middleOf(out)]);
    if (!into.folded || user === NONE) stops.push([into.x1, middleOf(into)]);
    if (user !== NONE) stops.push([boxOf(t, user).x0, middleOf(boxOf(t, user))]);
    strokes.push(stops);
  }
  const sent = new Set(links.messages.map(([, , maker, user]) => `${maker} ${user}`));
  const isMessage = isSend(t, spot.event) || isRecv(t, spot.event);
  const pairs = isMessage ? [] : [...links.needs.map((need) => [need, spot.event]),
                                  ...links.users.map((user) => [spot.event, user])];
  const stays = pairs.filter(([maker, user]) => !sent.has(`${maker} ${user}`));
  for (const [width, color] of [[4.5, paint.css.surface], [2, paint.css.select]]) {
    context.beginPath();
    for (const stops of strokes) {
      for (let k = 1; k < stops.length; ++k) curve(context, ...stops[k - 1], ...stops[k]);
    }
    for (const [maker, user] of stays) arch(context, boxOf(t, maker), boxOf(t, user));
    context.lineWidth = width;
    context.strokeStyle = color;
    context.stroke();
  }
  for (const other of [...links.needs, ...links.users]) {
    const box = boxOf(t, other);
    if (!box.folded) outline(context, box, 1.5, paint.css.select);
  }
  outline(context, boxOf(t, spot.event), 3, paint.css.accent);
}

// The whole step in a strip, with the part on the screen marked.
function drawOverview() {
  const {overview, paint} = picture;
  const ratio = view.ratio;
  const [width, height] = [overview.canvas.width, overview.canvas.height];
  if (overview.key !== `${width} ${height} ${paint.name}`) {
    overview.key = `${width} ${height} ${paint.name}`;
    overview.raster = makeRaster(overview.context, width, height);
    overview.raster.pixels.fill(paint.surface);
    paintOverview(overview.raster, ratio);
  }
  const context = overview.context;
  context.putImageData(overview.raster.image, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const [gutter, plot] = [view.gutter, plotWidth()];
  const x0 = gutter + view.t0 / view.longest * plot;
  const x1 = Math.max(x0 + 3, gutter + (view.t0 + view.span) / view.longest * plot);
  const tall = height / ratio;
  context.fillStyle = css(paint.theme.surface).replace(')', ' / 0.68)');
  context.fillRect(gutter, 0, x0 - gutter, tall);
  context.fillRect(x1, 0, gutter + plot - x1, tall);
  context.strokeStyle = paint.css.soft;
  context.lineWidth = 1.5;
  context.strokeRect(x0 + 0.75, 0.75, Math.max(1.5, x1 - x0 - 1.5), tall - 1.5);
}

function paintOverview(raster, ratio) {
  const {paint} = picture;
  if (rankCount() > 12 * Math.max(1, view.timelines.length)) {
    paintCrowd(raster, ratio);
    return;
  }
  const ranks = rankCount(), margin = Math.round(3 * ratio);
  const inside = raster.height - 2 * margin;
  const x0 = Math.round(view.gutter * ratio);
  const scale = plotWidth() * ratio / view.longest;
  let n = 0;
  for (const t of view.timelines) {
    for (let r = 0; r < t.ranks; ++r, ++n) {
      const y0 = margin + Math.floor(n * inside / ranks);
      const y1 = margin + Math.max(Math.floor((n + 1) * inside / ranks), y0 - margin + 1);
      const x1 = Math.min(raster.width, Math.ceil(x0 + t.makespan * scale));
      const at = {t, t0: 0, scale, x0, x1, y0, y1, paint, dim: false, gap: 0, labels: Infinity,
                  labelHeight: Infinity};
      drawLane(raster, laneOf(t, r, 0), at);
    }
  }
}

// For many ranks: the number of ranks by activity at each moment, stacked; idle ranks on top.
function paintCrowd(raster, ratio) {
  const {paint} = picture;
  const x0 = Math.round(view.gutter * ratio), scale = plotWidth() * ratio / view.longest;
  const margin = Math.round(3 * ratio), height = raster.height / view.timelines.length;
  for (const t of view.timelines) {
    const top = Math.round(t.index * height) + margin;
    const bottom = Math.round((t.index + 1) * height) - margin;
    const wide = Math.floor(t.makespan * scale);
    const sums = crowdOf(t, wide);
    for (let x = 0; x < Math.min(wide, raster.width - x0); ++x) {
      let sum = 0, low = bottom;
      for (let band = 0; band < CROWD_BANDS; ++band) {
        sum += sums[x * CROWD_BANDS + band];
        const high = Math.max(top, bottom - Math.round((bottom - top) * sum / (255 * t.ranks)));
        const color = band < COMPUTE_KINDS ? paint.fill[toneAt(band, 0, 0)]
          : pixel(paint.causeRgb[band - COMPUTE_KINDS]);
        if (low > high) fillBox(raster, x0 + x, high, x0 + x + 1, low, color);
        low = high;
      }
    }
  }
}

const CROWD_BANDS = COMPUTE_KINDS + CAUSE_TONES.length;  // kinds of computation, then causes

// By column and band, 255 for each rank with this activity.
function crowdOf(t, wide) {
  const sums = new Float64Array(wide * CROWD_BANDS);
  for (let r = 0; r < t.ranks; ++r) {
    const {width, levels} = laneOf(t, r, 0).bins;
    const span = t.makespan / wide;
    const l = Math.max(0, Math.min(levels.length - 1, Math.round(Math.log2(span / width))));
    const level = levels[l], last = level.length / SHARES - 1;
    for (let x = 0; x < wide; ++x) {
      const b = Math.min(last, Math.floor((x + 0.5) * span / (width * 2 ** l))) * SHARES;
      let idle = 255;
      for (let kind = 0; kind < COMPUTE_KINDS; ++kind) {
        sums[x * CROWD_BANDS + kind] += level[b + kind];
        idle -= level[b + kind];
      }
      const cause = level[b + CAUSE];
      if (cause && idle > 0) sums[x * CROWD_BANDS + COMPUTE_KINDS - 1 + cause] += idle;
    }
  }
  return sums;
}
