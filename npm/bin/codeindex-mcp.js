#!/usr/bin/env node
// Starts the installed server and hands stdin, stdout, signals and the exit code through.
"use strict";

const { spawn } = require("node:child_process");
const { accessSync, constants, statSync } = require("node:fs");
const path = require("node:path");

// In this order: the commands of the Python package, then a runner that fetches it.
const COMMANDS = [
  ["codeindex-mcp", []],
  ["cortex", ["mcp", "code"]],
  ["uvx", ["cortex-context", "mcp", "code"]],
];
const HELP = `codeindex-mcp: the command "cortex" is not installed, or not on the PATH.
Cortex is a Python package (Python 3.11 or newer). Install it with one of:
  uv tool install cortex-context
  pipx install cortex-context
then run codeindex-mcp again.
`;

/** The program of that name on the PATH; never one that belongs to an npm package, since that would be this file again. */
function find(name) {
  const endings = process.platform === "win32" ? [".exe"] : [""];
  for (const folder of (process.env.PATH || "").split(path.delimiter)) {
    for (const ending of endings) {
      const file = path.join(folder, name + ending);
      try {
        accessSync(file, constants.X_OK);
        if (folder && statSync(file).isFile() && !isNode(file)) return file;
      } catch {
        continue;
      }
    }
  }
  return undefined;
}

function isNode(file) {
  const { closeSync, openSync, readSync, realpathSync } = require("node:fs");
  if (realpathSync(file) === realpathSync(__filename)) return true;
  const head = Buffer.alloc(128);
  const handle = openSync(file, "r");
  try {
    const size = readSync(handle, head, 0, head.length, 0);
    return /^#!.*\bnode\b/.test(head.toString("latin1", 0, size));
  } finally {
    closeSync(handle);
  }
}

function main() {
  for (const [name, first] of COMMANDS) {
    const program = find(name);
    if (!program) continue;
    const child = spawn(program, [...first, ...process.argv.slice(2)], { stdio: "inherit" });
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
    child.on("error", (error) => {
      process.stderr.write(`codeindex-mcp: ${program} can't be started: ${error.message}\n`);
      process.exitCode = 1;
    });
    child.on("exit", (code, signal) => {
      process.exitCode = signal ? 1 : code;
    });
    return;
  }
  process.stderr.write(HELP);
  process.exitCode = 127;
}

main();
