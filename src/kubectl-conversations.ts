#!/usr/bin/env node
import packageJson from '../package.json' with { type: 'json' };

/**
 * The program is one file, and the import below runs its modules: an older version of Node, which
 * lacks APIs of these modules, gets the message instead of a stack trace.
 */
const [needed = 0, present = 0] = [packageJson.engines.node, process.versions.node].map((text) =>
  Number(/\d+/.exec(text)?.[0]),
);
if (present < needed) {
  process.stderr.write(
    `kubectl-conversations: Node.js ${needed} or newer is needed, not ${process.versions.node}\n`,
  );
  process.exitCode = 1;
} else {
  const { runPlugin } = await import('./plugin/program.ts');
  await runPlugin(packageJson.version);
}
