// Installs the agents of the table of vendors, or those that the arguments name, where the tests
// expect them.
import { installAcpAgent } from '../../src/commands/local-agents.ts';
import { acpAgentNames } from '../../src/resources/acp-settings.ts';
import { agentsFolder } from '../support/agents-folder.ts';

const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => ended.abort(new Error('interrupted')));

const [, , ...named] = process.argv;
for (const name of acpAgentNames.filter((each) => named.length === 0 || named.includes(each))) {
  try {
    await installAcpAgent(name, {
      folder: agentsFolder,
      environment: process.env,
      signal: ended.signal,
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`The agent ${name} can't be installed: ${reason}\n`);
    process.exit(1);
  }
}
