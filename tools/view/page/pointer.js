// Mouse, touch and wheel.

function listen() {
  const upper = byId('upper');
  upper.addEventListener('wheel', onWheel, {passive: false});
  upper.addEventListener('pointerdown', onDown);
  upper.addEventListener('pointermove', onMove);
  upper.addEventListener('pointerup', onUp);
  upper.addEventListener('pointercancel', onUp);
  upper.addEventListener('pointerleave', () => {
    view.pointerX = undefined;
    hover(null);
  });
  upper.addEventListener('dblclick', (event) => {
    zoomAt(timeAt(event.offsetX), 1 / 3);
    refresh();
  });
  document.addEventListener('keydown', onKey);
  window.addEventListener('resize', resize);
  new ResizeObserver(resize).observe(byId('plot'));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme);
  byId('search').addEventListener('submit', (event) => {
    event.preventDefault();
    findText(byId('find').value);
  });
  byId('find').addEventListener('input', () => byId('find').classList.remove('missing'));
  byId('zoomin').addEventListener('click', () => { ACTIONS['+'](); refresh(); });
  byId('zoomout').addEventListener('click', () => { ACTIONS['-'](); refresh(); });
  byId('zoomall').addEventListener('click', () => { ACTIONS['0'](); refresh(); });
  byId('theme').addEventListener('click', nextTheme);
  byId('help').addEventListener('click', () => byId('keys').showModal());
  listenToOverview(byId('overview'));
}

// Up and down zooms at the pointer, sideways (or with Shift) moves in time; over the labels, or
// with Alt, the wheel moves over the ranks.
function onWheel(event) {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? view.height : 1;
  let dx = event.deltaX * unit, dy = event.deltaY * unit;
  if (event.shiftKey && !dx) [dx, dy] = [dy, 0];
  if (event.offsetX < view.gutter || event.altKey) {
    view.scrollY += dy;
  } else {
    if (dy) zoomAt(timeAt(event.offsetX), Math.exp(dy * (event.ctrlKey ? 0.01 : 0.002)));
    view.t0 += dx / plotWidth() * view.span;
  }
  clampView();
  hover(null);
  refresh();
}

const fingers = new Map();  // by pointer: its place
let drag = null;            // {x, y, moved}

function onDown(event) {
  if (event.button !== 0) return;
  byId('upper').setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, {x: event.offsetX, y: event.offsetY});
  drag = {x: event.offsetX, y: event.offsetY, moved: fingers.size > 1};
}

function onMove(event) {
  const place = {x: event.offsetX, y: event.offsetY};
  const finger = fingers.get(event.pointerId);
  if (!finger) {
    view.pointerX = place.x;
    hover(hitAt(place.x, place.y), place);
    refresh(true);
    return;
  }
  if (fingers.size === 2) {
    pinch(event.pointerId, finger, place);
  } else if (drag && (drag.moved || Math.hypot(place.x - drag.x, place.y - drag.y) > 4)) {
    drag.moved = true;
    byId('upper').classList.add('dragging');
    hover(null);
    view.pointerX = undefined;
    view.t0 -= (place.x - finger.x) / plotWidth() * view.span;
    view.scrollY -= place.y - finger.y;
    clampView();
    refresh();
  }
  if (!drag || drag.moved) fingers.set(event.pointerId, place);
}

function pinch(id, before, now) {
  const [, other] = [...fingers].find(([key]) => key !== id);
  const apart = (place) => Math.max(20, Math.abs(place.x - other.x));
  zoomAt(timeAt((now.x + other.x) / 2), apart(before) / apart(now));
  view.t0 -= (now.x - before.x) / 2 / plotWidth() * view.span;
  clampView();
  fingers.set(id, now);
  refresh();
}

function onUp(event) {
  fingers.delete(event.pointerId);
  byId('upper').classList.remove('dragging');
  const click = drag && !drag.moved && event.type === 'pointerup';
  drag = null;
  if (!click) return;
  byId('upper').focus({preventScroll: true});
  const hit = hitAt(event.offsetX, event.offsetY);
  if (!hit) {
    select(null);
  } else if (hit.gutter) {
    view.folds.set(`${hit.t.index} ${hit.rank}`, !showsLanes(hit.t, hit.rank));
    changeLayout();
  } else if (hit.event !== NONE || hit.idle !== NONE) {
    select({t: hit.t, event: hit.event, idle: hit.idle});
  } else {
    select(null);
  }
}

function hover(hit, place) {
  const tip = byId('tip');
  const spot = hit && !hit.gutter && (hit.event !== NONE || hit.idle !== NONE)
    ? {t: hit.t, event: hit.event, idle: hit.idle} : null;
  view.hovered = spot;
  const words = hit ? tipOf(hit) : null;
  tip.hidden = !words;
  if (!words) return;
  tip.replaceChildren(...words);
  const box = tip.getBoundingClientRect();
  const x = place.x + 16 + box.width > view.width ? place.x - box.width - 12 : place.x + 16;
  const y = place.y + 18 + box.height > view.height ? place.y - box.height - 12 : place.y + 18;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}

function listenToOverview(overview) {
  let grip = null;  // where in the window it was taken hold of
  const timeOf = (event) => (event.offsetX - view.gutter) / plotWidth() * view.longest;
  overview.addEventListener('pointerdown', (event) => {
    overview.setPointerCapture(event.pointerId);
    const time = timeOf(event);
    const inside = time >= view.t0 && time <= view.t0 + view.span;
    grip = inside ? time - view.t0 : view.span / 2;
    view.t0 = time - grip;
    clampView();
    refresh();
  });
  overview.addEventListener('pointermove', (event) => {
    if (grip === null) return;
    view.t0 = timeOf(event) - grip;
    clampView();
    refresh();
  });
  for (const end of ['pointerup', 'pointercancel']) {
    overview.addEventListener(end, () => { grip = null; });
  }
}
