import { hostInUrl } from '@conversation-operator/base/addresses';
import { chooseProgram } from './choose-program.ts';
import { AgentServer } from '@conversation-operator/agent-server/server';
import { loadSettings, SettingsError } from '@conversation-operator/agent-server/settings';

/** Maximum duration of a stop, below the termination grace period of the sandbox's pod. */
const stopDeadlineMs = 1800;

const log = (message: string, error?: unknown): void => {
  const detail =
    error === undefined
      ? {}
      : { error: error instanceof Error ? (error.stack ?? error.message) : error };
  process.stderr.write(
    `${JSON.stringify({ timestamp: new Date().toISOString(), message, ...detail })}\n`,
  );
};

async function main(): Promise<void> {
  const settings = loadSettings(process.argv.slice(2), process.env);
  // With this call, an invalid setting fails the start of the server rather than the first run.
  chooseProgram(settings.env);
  const server = new AgentServer({ settings, programs: chooseProgram, log });
  const stop = (signal: string) => {
    log(`stopping on ${signal}`);
    setTimeout(() => process.exit(1), stopDeadlineMs).unref();
    server.stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log('stopping failed', error);
        process.exit(1);
      },
    );
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
  const { address, port } = await server.start();
  log(`listening on ${hostInUrl(address)}:${port}`);
}

try {
  await main();
} catch (error) {
  // The message of a SettingsError is enough without a stack.
  log('the reference agent did not start', error instanceof SettingsError ? error.message : error);
  process.exitCode = 2;
}
