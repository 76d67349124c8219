// `.sched` files in VS Code: starts `stringline lsp`, sends every change of a text, shows the
// findings, and forwards the editor's requests. Needs no package beside VS Code itself.
"use strict";

const path = require("path");
const vscode = require("vscode");
const convert = require("./convert");
const { Server } = require("./server");

const LANGUAGE = "stringline";
// Files and new texts, not the older versions shown beside them.
const SCHEMES = ["file", "untitled"];
const SELECTOR = SCHEMES.map((scheme) => ({ language: LANGUAGE, scheme }));

let server;
let findings;

// The setting. A path that begins in the open folder is relative to this folder.
function toolPath() {
  const tool = vscode.workspace.getConfiguration(LANGUAGE).get("tool") || LANGUAGE;
  const folders = vscode.workspace.workspaceFolders;
  if (!/[/\\]/.test(tool) || path.isAbsolute(tool) || !folders) return tool;
  return path.resolve(folders[0].uri.fsPath, tool);
}

const isOurs = ({ languageId, uri }) => languageId === LANGUAGE && SCHEMES.includes(uri.scheme);
const idOf = (document) => ({ uri: document.uri.toString() });

// Notifications from the editor to the server.

function opened(document) {
  if (!isOurs(document)) return;
  const { languageId, version } = document;
  server.notify("textDocument/didOpen", {
    textDocument: { ...idOf(document), languageId, version, text: document.getText() },
  });
}

function changed({ document, contentChanges }) {
  if (!isOurs(document) || contentChanges.length === 0) return;
  server.notify("textDocument/didChange", {
    textDocument: { ...idOf(document), version: document.version },
    contentChanges: contentChanges.map(({ range, text }) => ({
      range: convert.fromRange(range),
      text,
    })),
  });
}

function closed(document) {
  if (isOurs(document)) server.notify("textDocument/didClose", { textDocument: idOf(document) });
}

// Notifications from the server to the editor.

function notified(method, params) {
  if (method !== "textDocument/publishDiagnostics") return;
  findings.set(vscode.Uri.parse(params.uri), params.diagnostics.map(convert.toDiagnostic));
}

// Requests of the editor. The server answers null without an answer.

function ask(method, document, more) {
  const params = { textDocument: idOf(document), ...more };
  return server.request(`textDocument/${method}`, params);
}

const at = (position) => ({ position: convert.fromPosition(position) });
const each = (values, turn) => (values || []).map(turn);

const completions = {
  provideCompletionItems: async (document, position) =>
    each(await ask("completion", document, at(position)), convert.toCompletion),
};

const hovers = {
  async provideHover(document, position) {
    const hover = await ask("hover", document, at(position));
    return hover && convert.toHover(hover);
  },
};

const definitions = {
  async provideDefinition(document, position) {
    const place = await ask("definition", document, at(position));
    return place && convert.toLocation(place);
  },
};

const references = {
  async provideReferences(document, position, { includeDeclaration }) {
    const context = { includeDeclaration };
    return each(
      await ask("references", document, { ...at(position), context }), convert.toLocation,
    );
  },
};

// A refusal is an error, whose words the editor shows.
const renames = {
  async prepareRename(document, position) {
    const { range, placeholder } = await ask("prepareRename", document, at(position));
    return { range: convert.toRange(range), placeholder };
  },
  async provideRenameEdits(document, position, newName) {
    return convert.toWorkspaceEdit(await ask("rename", document, { ...at(position), newName }));
  },
};

const symbols = {
  provideDocumentSymbols: async (document) =>
    each(await ask("documentSymbol", document), convert.toSymbol),
};

const layouts = {
  provideDocumentFormattingEdits: async (document, { tabSize, insertSpaces }) =>
    each(
      await ask("formatting", document, { options: { tabSize, insertSpaces } }), convert.toEdit,
    ),
};

function start() {
  server = new Server(toolPath(), notified, (reason) => {
    findings.clear();
    vscode.window.showErrorMessage(
      `Stringline: ${reason}. The setting stringline.tool says which tool is started.`,
    );
  });
  server.request("initialize", { processId: process.pid, rootUri: null, capabilities: {} })
    .catch(() => {}); // it has ended, which was shown
  server.notify("initialized", {});
  vscode.workspace.textDocuments.forEach(opened);
}

async function restart() {
  await server.stop();
  findings.clear();
  start();
}

exports.activate = (context) => {
  const { commands, languages, workspace } = vscode;
  findings = languages.createDiagnosticCollection(LANGUAGE);
  context.subscriptions.push(
    findings,
    workspace.onDidOpenTextDocument(opened),
    workspace.onDidChangeTextDocument(changed),
    workspace.onDidCloseTextDocument(closed),
    workspace.onDidChangeConfiguration(
      (change) => change.affectsConfiguration("stringline.tool") && restart(),
    ),
    commands.registerCommand("stringline.restart", restart),
    languages.registerCompletionItemProvider(SELECTOR, completions, ".", '"'),
    languages.registerHoverProvider(SELECTOR, hovers),
    languages.registerDefinitionProvider(SELECTOR, definitions),
    languages.registerReferenceProvider(SELECTOR, references),
    languages.registerRenameProvider(SELECTOR, renames),
    languages.registerDocumentSymbolProvider(SELECTOR, symbols),
    languages.registerDocumentFormattingEditProvider(SELECTOR, layouts),
  );
  start();
};

exports.deactivate = () => server.stop();
