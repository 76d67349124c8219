// A stand-in for the module `vscode`, with exactly the parts that the extension uses, as in VS
// Code's API. Any other use is an error. The stand-in keeps everything that the extension
// registers, so that a test can ask as the editor does.
"use strict";

class Position {
  constructor(line, character) {
    if (!Number.isInteger(line) || !Number.isInteger(character)) throw new Error("no position");
    Object.assign(this, { line, character });
  }
}

class Range {
  constructor(start, end) {
    if (!(start instanceof Position) || !(end instanceof Position)) throw new Error("no range");
    Object.assign(this, { start, end });
  }
}

class Uri {
  static parse(text) {
    const uri = new Uri();
    Object.assign(uri, { text, scheme: text.split(":")[0], fsPath: text.replace("file://", "") });
    return uri;
  }
  toString() {
    return this.text;
  }
}

// A class whose constructor keeps its arguments under these names.
const keeping = (...names) =>
  class {
    constructor(...values) {
      names.forEach((name, i) => (this[name] = values[i]));
    }
  };

const TextEdit = keeping("range", "newText");
TextEdit.replace = (range, newText) => new TextEdit(range, newText);

class WorkspaceEdit {
  constructor() {
    this.edits = new Map();
  }
  set(uri, edits) {
    this.edits.set(uri.toString(), edits);
  }
}

// Registered providers, and shown messages.
const providers = {};
const listeners = {};
const commands = {};
const findings = new Map(); // by URI
const errors = [];
const documents = [];
const settings = { tool: "stringline" };

const nothing = { dispose() {} };
const register = (kind) => (selector, provider, ...more) => {
  const ours = { language: "stringline", scheme: "file" };
  if (JSON.stringify(selector[0]) !== JSON.stringify(ours)) throw new Error("another language");
  providers[kind] = { ...provider, more };
  return nothing;
};
const listen = (kind) => (listener) => {
  listeners[kind] = listener;
  return nothing;
};

// Unlike for an object, any other member is an error.
const strict = (members) =>
  new Proxy(members, {
    get(target, name) {
      if (name in target) return target[name];
      throw new Error(`the stand-in has no '${String(name)}'`);
    },
  });

const vscode = strict({
  Position, Range, Uri, TextEdit, WorkspaceEdit,
  Location: keeping("uri", "range"),
  Hover: keeping("contents", "range"),
  MarkdownString: keeping("value"),
  Diagnostic: keeping("range", "message", "severity"),
  DiagnosticRelatedInformation: keeping("location", "message"),
  CompletionItem: keeping("label", "kind"),
  DocumentSymbol: keeping("name", "detail", "kind", "range", "selectionRange"),
  languages: strict({
    createDiagnosticCollection: () => ({
      set: (uri, diagnostics) => {
        findings.set(uri.toString(), diagnostics);
        listeners.findings?.();
      },
      clear: () => findings.clear(),
      dispose() {},
    }),
    registerCompletionItemProvider: register("completions"),
    registerHoverProvider: register("hovers"),
    registerDefinitionProvider: register("definitions"),
    registerReferenceProvider: register("references"),
    registerRenameProvider: register("renames"),
    registerDocumentSymbolProvider: register("symbols"),
    registerDocumentFormattingEditProvider: register("layouts"),
  }),
  workspace: strict({
    textDocuments: documents,
    workspaceFolders: undefined,
    getConfiguration: () => ({ get: (name) => settings[name] }),
    onDidOpenTextDocument: listen("opened"),
    onDidChangeTextDocument: listen("changed"),
    onDidCloseTextDocument: listen("closed"),
    onDidChangeConfiguration: listen("configured"),
  }),
  commands: strict({
    registerCommand: (name, command) => {
      commands[name] = command;
      return nothing;
    },
  }),
  window: strict({ showErrorMessage: (text) => errors.push(text) }),
});

// A text in the editor.
class Document {
  constructor(uri, text) {
    Object.assign(this, { uri: Uri.parse(uri), languageId: "stringline", version: 1, text });
  }
  getText() {
    return this.text;
  }
  // The place of the k-th occurrence of `part`.
  at(part, k = 1) {
    let offset = -1;
    for (; k > 0; --k) offset = this.text.indexOf(part, offset + 1);
    if (offset < 0) throw new Error(`there is no '${part}'`);
    const lines = this.text.slice(0, offset).split("\n");
    return new Position(lines.length - 1, lines.at(-1).length);
  }
}

module.exports = {
  vscode, providers, listeners, commands, findings, errors, documents, settings, Document,
};
