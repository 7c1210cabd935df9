#!/usr/bin/env node
import packageJson from '../package.json' with { type: 'json' };

/**
 * The check precedes the import of the program: an older version of Node would fail with a stack
 * trace while loading modules that use newer syntax or APIs. This file itself uses none of these.
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
