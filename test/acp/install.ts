// Installs the agents of the table of vendors where the tests expect them.
import { fileURLToPath } from 'node:url';
import { installAcpAgent } from '../../src/commands/acp-agents.ts';
import { acpAgentNames } from '../../src/resources/acp-settings.ts';

const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => ended.abort(new Error('interrupted')));

const folder =
  process.env['ACP_AGENTS_DIR'] ?? fileURLToPath(new URL('../../.cache/agents', import.meta.url));
for (const name of acpAgentNames) {
  try {
    await installAcpAgent(name, { folder, environment: process.env, signal: ended.signal });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`The agent ${name} can't be installed: ${reason}\n`);
    process.exit(1);
  }
}
