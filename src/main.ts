#!/usr/bin/env node
import packageJson from '../package.json' with { type: 'json' };

/**
 * An older Node fails with a stack while it loads the program: modules use parts of the language
 * and of Node that it does not have. Therefore this file imports the program after the check, and
 * uses nothing new itself.
 */
const [needed = 0, present = 0] = [packageJson.engines.node, process.versions.node].map((text) =>
  Number(/\d+/.exec(text)?.[0]),
);
if (present < needed) {
  const here = new URL('../node_modules/.bin/node', import.meta.url);
  process.stderr.write(
    `conversation-operator: Node.js ${needed} or newer is needed, not ${process.versions.node}: ` +
      `run it with ${decodeURIComponent(here.pathname)}, which \`npm ci\` installs\n`,
  );
  process.exitCode = 1;
} else {
  const { runProgram } = await import('./program.ts');
  await runProgram({ ...packageJson, programFolder: import.meta.dirname });
}
