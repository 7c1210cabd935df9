import { aTemplate } from '../support/builders.ts';
import { RelayScene } from '../support/models/relay-scene.ts';

/**
 * The relay for models alone, for the providers at the given URLs: one for all, and one that only
 * the last conversation uses. Each owner has a budget. Prints where the agents of some
 * conversations of two owners reach it, as JSON.
 */
const [providerUrl = '', otherUrl = ''] = process.argv.slice(2);
const scene = await RelayScene.start();
const agentAt = (url: string) => ({
  port: 8000,
  workingDir: '/workspace',
  model: 'openai/m',
  baseUrl: `${url}/v1`,
  credential: 'platform',
});
scene.template({ agent: agentAt(providerUrl) });
const other = aTemplate({ agent: agentAt(otherUrl) });
scene.templates.set({ ...other, metadata: { ...other.metadata, name: 'other' } });
scene.budget(1_000_000);
const access = (index: number, owner: string, spec: object = {}) => {
  const { baseUrl, token } = scene.conversation(index, { owner, ...spec });
  return { baseUrl, token };
};
const accesses = {
  mallory: Array.from({ length: 10 }, (_, index) => access(index + 1, 'mallory')),
  bob: access(100, 'bob'),
  bobElsewhere: access(101, 'bob', { templateName: 'other' }),
};
process.stdout.write(`${JSON.stringify(accesses)}\n`);

// Only a process that ends by itself writes the profile of --cpu-prof.
process.once('SIGTERM', () => process.exit());
