// A small map of the stages that are no chain: a circle for each, in columns by the longest way that
// leads to it, and a line for each edge.

const MOST_ON_MAP = 80;

// An element of a drawing, as the empty one of the page.
function draw(tag, attributes, ...children) {
  const element = document.createElementNS(byId('drawing').namespaceURI, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// By stage its column and its place in it.
function placesOf(edges, stages) {
  const column = new Array(stages).fill(0);
  for (let round = 0; round < stages; ++round) {  // as many as the longest way has edges
    let moved = false;
    for (const [from, to] of edges) {
      if (column[to] > column[from]) continue;
      column[to] = column[from] + 1;
      moved = true;
    }
    if (!moved) break;
  }
  const used = [];
  return column.map((c) => ({column: c, row: used[c] = (used[c] === undefined ? 0 : used[c] + 1)}));
}

// The map with the stages `chosen` marked; nothing for a chain.
function mapOf(t, chosen = []) {
  const edges = t.head.edges;
  const stages = 1 + Math.max(-1, ...edges.flat());
  if (!stages || stages > MOST_ON_MAP) return [];
  const places = placesOf(edges, stages);
  const columns = 1 + Math.max(...places.map((p) => p.column));
  const rows = 1 + Math.max(...places.map((p) => p.row));
  const step = Math.min(44, 280 / columns), radius = Math.min(10, step / 3), lane = 2.4 * radius + 8;
  const width = columns * step, height = rows * lane + 2 * radius;
  const inColumn = (c) => places.filter((p) => p.column === c).length;
  const spot = ({column, row}) => ({
    x: (column + 0.5) * step, y: height / 2 + (row - (inColumn(column) - 1) / 2) * lane});
  const isChosen = (stage) => chosen.includes(stage);
  const lines = edges.map(([from, to]) => {
    const a = spot(places[from]), b = spot(places[to]);
    // An edge over several columns swings beside the stages between.
    const swing = places[to].column - places[from].column > 1 && a.y === b.y ? lane * 0.8 : 0;
    const middle = (a.x + b.x) / 2;
    return draw('path', {
      d: `M${a.x} ${a.y}C${middle} ${a.y - swing} ${middle} ${b.y - swing} ${b.x} ${b.y}`,
      class: isChosen(from) || isChosen(to) ? 'edge chosen' : 'edge'},
    );
  });
  const circles = places.map((place, stage) => {
    const {x, y} = spot(place);
    return draw('g', {class: isChosen(stage) ? 'stage chosen' : 'stage'},
                draw('circle', {cx: x, cy: y, r: radius}),
                draw('text', {x, y, 'font-size': radius * 1.1}, String(stage)));
  });
  const label = `stages and edges: ${edges.map(([a, b]) => `${a} to ${b}`).join(', ')}`;
  const picture_ = draw('svg', {class: 'map', role: 'img', 'aria-label': label,
                                viewBox: `0 0 ${width} ${height}`, width, height},
                        ...lines, ...circles);
  return [make('h3', {}, several() ? `${letterOf(t)}: where a microbatch goes`
                                   : 'Where a microbatch goes'), picture_];
}

// "takes from stages 0 and 1, gives to stage 4": the edges of the stage of a computation.
function edgeWords(t, i) {
  if (!t.head.edges.length || !isCompute(t, i)) return '';
  const named = (stages) => (stages.length === 1 ? `stage ${stages[0]}` : `stages ${
    stages.slice(0, -1).join(', ')} and ${stages[stages.length - 1]}`);
  const from = t.head.edges.filter(([, to]) => to === t.stage[i]).map(([a]) => a);
  const to = t.head.edges.filter(([a]) => a === t.stage[i]).map(([, b]) => b);
  return [from.length ? `takes from ${named(from)}` : 'reads the data',
          to.length ? `gives to ${named(to)}` : 'has a loss'].join(', ');
}
