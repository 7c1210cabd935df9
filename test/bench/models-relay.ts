import { RelayScene } from '../support/models/relay-scene.ts';

/**
 * The relay for models alone, for the provider at the given URL. Each owner has a budget. Prints
 * where the agents of some conversations of two owners reach it, as JSON.
 */
const [providerUrl = ''] = process.argv.slice(2);
const scene = await RelayScene.start();
scene.template({
  agent: {
    port: 8000,
    workingDir: '/workspace',
    model: 'openai/m',
    baseUrl: `${providerUrl}/v1`,
    credential: 'platform',
  },
});
scene.budget(1_000_000);
const access = (index: number, owner: string) => {
  const { baseUrl, token } = scene.conversation(index, { owner });
  return { baseUrl, token };
};
const accesses = {
  mallory: Array.from({ length: 10 }, (_, index) => access(index + 1, 'mallory')),
  bob: access(100, 'bob'),
};
process.stdout.write(`${JSON.stringify(accesses)}\n`);

// Only a process that ends by itself writes the profile of --cpu-prof.
process.once('SIGTERM', () => process.exit());
