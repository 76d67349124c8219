-- The recipe of tools/editor/README.md, in Neovim itself: run with the recipe as the configuration, on
-- wrong.sched, with ugly.sched beside it. Ends Neovim with status 0 if all of it works.
local function check(holds, said)
  if holds then return end
  io.stderr:write("recipe_test.lua: " .. said .. "\n")
  vim.cmd("cquit 1")
end

local function wait_for(what, holds) check(vim.wait(20000, holds, 20), "no " .. what .. " came") end

local function clients()
  local get = vim.lsp.get_clients or vim.lsp.buf_get_clients
  local argument = vim.lsp.get_clients and { bufnr = 0 } or 0
  return vim.tbl_values(get(argument))
end

local function ask(method, line, column)
  vim.api.nvim_win_set_cursor(0, { line, column })
  local client = clients()[1]
  local place = vim.lsp.util.make_position_params(0, client.offset_encoding)
  local answers = vim.lsp.buf_request_sync(0, method, place, 10000)
  for _, answer in pairs(answers or {}) do
    return answer.result
  end
end

check(vim.bo.filetype == "stringline", "the file type is '" .. vim.bo.filetype .. "'")
check(vim.bo.commentstring == "# %s", "the comment string is '" .. vim.bo.commentstring .. "'")
wait_for("server", function() return #clients() == 1 end)
local first = clients()[1].id
wait_for("finding", function() return #vim.diagnostic.get(0) > 0 end)
local finding = vim.diagnostic.get(0)[1]
check(finding.lnum == 5 and finding.message:find("nothing"), "the finding is " .. vim.inspect(finding))

local hover = ask("textDocument/hover", 3, 8)
check(hover and vim.inspect(hover):find("warmup"), "hover says " .. vim.inspect(hover))
local definition = ask("textDocument/definition", 5, 13)
check(vim.inspect(definition):find("line = 2"), "the definition is " .. vim.inspect(definition))
check(vim.bo.omnifunc == "v:lua.vim.lsp.omnifunc", "completion is '" .. vim.bo.omnifunc .. "'")
for _, keys in ipairs({ "K", "gd", "grr", "grn", "gO" }) do
  check(vim.fn.maparg(keys, "n", false, true).buffer == 1, keys .. " has no meaning in the buffer")
end

-- A second file has the same server, which lays it out.
vim.cmd("edit ugly.sched")
check(vim.bo.filetype == "stringline", "the second file's type is '" .. vim.bo.filetype .. "'")
wait_for("server for the second file", function() return #clients() == 1 end)
check(clients()[1].id == first, "the second file has a server of its own")
local lay_out = vim.lsp.buf.format or vim.lsp.buf.formatting_sync
lay_out()
check(vim.fn.getline(1):find("ugly(P, M) {", 1, true), "the layout is " .. vim.fn.getline(1))
vim.cmd("qall!")
