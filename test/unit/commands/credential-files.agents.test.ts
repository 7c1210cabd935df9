import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { noAgentCredentials } from '../../../src/agent/credentials.ts';
import { mountedAgentCredentials } from '../../../src/commands/credential-files.ts';
import { localAgentCredentials } from '../../../src/commands/local-agents.ts';
import { recordingLogger } from '../../support/recording-logger.ts';

let folder: string;
const { logger, lines } = recordingLogger();
const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agent-credentials-'));
  lines.length = 0;
});
afterEach(() => rmSync(folder, { recursive: true }));

it("keys of models are an owner's own before everybody's, as they are now", async () => {
  write('openai', 'sk-everybody\n');
  write('openai.alice_40example.com', 'sk-alice');
  const credentials = mountedAgentCredentials(folder, logger);
  expect(await credentials.of('alice@example.com', 'openai')).toBe('sk-alice');
  expect(await credentials.of('bob', 'openai')).toBe('sk-everybody');
  expect(await credentials.of('bob', 'other')).toBeUndefined();
  // The path of another owner's file, or of a file elsewhere.
  expect(await credentials.of('bob', 'openai.alice_40example.com')).toBeUndefined();
  expect(await credentials.of('bob', '../openai')).toBeUndefined();
  write('openai', 'sk-rotated');
  expect(await credentials.of('bob', 'openai')).toBe('sk-rotated');
});

it("one that can't be used is reported once, without its content, and the file for all owners is no substitute", async () => {
  write('openai', 'sk-everybody');
  write('openai.alice', 'two\nsecret lines');
  const credentials = mountedAgentCredentials(folder, logger);
  expect(await credentials.of('alice', 'openai')).toBeUndefined();
  expect(await credentials.of('alice', 'openai')).toBeUndefined();
  expect(lines).toEqual([
    {
      level: 'error',
      message: 'a model credential can not be used',
      fields: { credential: 'openai.alice', problem: 'it has to be one line with the key' },
    },
  ]);
});

it('need their folder at the start, and without one there are none', async () => {
  expect(() => mountedAgentCredentials(join(folder, 'none'), logger)).toThrow(
    /AGENT_CREDENTIALS_DIR: .*none can't be read \(ENOENT\)/,
  );
  expect(await mountedAgentCredentials(undefined, logger).of('alice', 'openai')).toBeUndefined();
});

it('on one machine the key of the environment has one name, and a file of that name comes first', async () => {
  const credentials = localAgentCredentials(
    { LLM_API_KEY: 'sk-local' },
    mountedAgentCredentials(folder, logger),
  );
  expect(await credentials.of('local', 'model')).toBe('sk-local');
  expect(await credentials.of('local', 'openai')).toBeUndefined();
  write('model', 'sk-file');
  expect(await credentials.of('local', 'model')).toBe('sk-file');
  expect(() => localAgentCredentials({ LLM_API_KEY: 'a b' }, noAgentCredentials)).toThrow(
    /^LLM_API_KEY: must be one line/,
  );
});
