// Runs the scripts of nmt/export/web in Node. Reads {files, cases: [expression, …], data} as JSON from standard input;
// writes the value of each expression, in which `data` can be used.
import { readFileSync } from "node:fs";
import vm from "node:vm";

const { files, data, cases } = JSON.parse(readFileSync(0, "utf8"));
const context = vm.createContext({ TextEncoder, TextDecoder, Uint8Array, atob, performance, setTimeout, self: {}, data });
const code = files.map((file) => readFileSync(file, "utf8")).join("\n");
vm.runInContext(code, context);
const values = [];
for (const expression of cases) values.push(await vm.runInContext(expression, context));
process.stdout.write(JSON.stringify(values));
