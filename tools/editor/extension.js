// Starts `stringline lsp` for schedule files. Without the language client package only the colours
// work.
let client;

exports.activate = () => {
  const { workspace } = require("vscode");
  const { LanguageClient } = require("vscode-languageclient/node");
  const command = workspace.getConfiguration("stringline").get("tool");
  client = new LanguageClient(
    "stringline",
    "Stringline",
    { command, args: ["lsp"] },
    { documentSelector: [{ language: "stringline" }] },
  );
  return client.start();
};

exports.deactivate = () => client && client.stop();
