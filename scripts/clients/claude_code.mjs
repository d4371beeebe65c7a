// Claude Code: `claude -p` for the first message, `claude -c -p` for those that go on with it.
import { execFileSync } from "node:child_process";

for (const [number, text] of process.argv.slice(2).entries()) {
  const options = number ? ["-c", "-p", text] : ["-p", text];
  const printed = execFileSync("node_modules/.bin/claude", options, { stdio: ["ignore", "pipe", "inherit"] });
  console.log(printed.toString().trim().replaceAll("\n", " "));
}
