#!/usr/bin/env node
import packageJson from '../package.json' with { type: 'json' };

/**
 * Node has to be checked before the program is imported: an older version fails with a stack while
 * it loads modules with newer syntax. This file itself uses no newer syntax.
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
