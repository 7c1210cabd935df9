import { maskText, noNeedles } from '../src/mask.ts';
import type { Meta } from '../src/meta.ts';
import { SecretBox, agentVariablesOf, Secrets, withSecrets, type Secret } from '../src/secrets.ts';
import { LookupServer } from './lookup-server.ts';

const box = new SecretBox('key');
const hidden = '<secret-hidden>';

const aMeta = (secrets: Readonly<Record<string, Secret>>, id = 'a'): Meta => ({
  id,
  createdAt: '',
  workingDir: '/w',
  maxIterations: 1,
  tags: {},
  loadProjectSkills: false,
  ...withSecrets({ sealedSecrets: {} }, secrets, box),
});

const { signal } = new AbortController();
const all = () => true;

describe('the secrets of a conversation', () => {
  it('are read from where they are, and their values are hidden from then on', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 'of-the-server');
    const secrets = new Secrets(box);
    const meta = aMeta({ OWN: { value: 'of-the-body' }, OTHER: lookups.secret('/t') });
    const text = 'of-the-body of-the-server';
    expect(maskText(text, secrets.needlesOf(meta))).toBe(`${hidden} of-the-server`);
    const { values, unread } = await secrets.read(meta, all, { signal });
    expect(Object.fromEntries(values)).toEqual({ OWN: 'of-the-body', OTHER: 'of-the-server' });
    expect(unread).toEqual([]);
    expect(maskText(text, secrets.needlesOf(meta))).toBe(`${hidden} ${hidden}`);
    expect(maskText(text, secrets.needlesOf(aMeta({}, 'b')))).toBe(text);
  });

  it('are read only when they are wanted, each time anew, and former values stay hidden', async () => {
    await using lookups = await LookupServer.start();
    const secrets = new Secrets(box);
    const meta = aMeta({ A: lookups.secret('/a'), B: lookups.secret('/b') });
    for (const value of ['first-value', 'second-value']) {
      lookups.answers.set('/a', value);
      const { values } = await secrets.read(meta, (name) => name === 'A', { signal });
      expect(values.get('A')).toBe(value);
    }
    expect(lookups.requests).toEqual(['/a', '/a']);
    expect(maskText('first-value second-value', secrets.needlesOf(meta))).toBe(
      `${hidden} ${hidden}`,
    );
  });

  it('stay hidden after they were replaced', () => {
    const secrets = new Secrets(box);
    const before = aMeta({ A: { value: 'first-value' } });
    secrets.needlesOf(before);
    const after = { ...before, ...withSecrets(before, { A: { value: 'second-value' } }, box) };
    expect(maskText('first-value second-value', secrets.needlesOf(after))).toBe(
      `${hidden} ${hidden}`,
    );
  });

  it.each<[string, string | number | { location: string }, number]>([
    ['the server refuses twice', 503, 2],
    ['the value is too long', 'x'.repeat(64 * 1024 + 1), 2],
    ['the server redirects', { location: '/else' }, 2],
  ])('are not read when %s', async (_case, answer, attempts) => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', answer).set('/else', 'value');
    const read = await new Secrets(box).read(aMeta({ T: lookups.secret('/t') }), all, { signal });
    expect(read).toEqual({ values: new Map(), unread: ['T'] });
    expect(lookups.requests).toHaveLength(attempts);
  });

  it('are read by the second attempt', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 500);
    const reading = new Secrets(box).read(aMeta({ T: lookups.secret('/t') }), all, { signal });
    while (lookups.requests.length === 0) await new Promise(setImmediate);
    lookups.answers.set('/t', 'x'.repeat(64 * 1024));
    expect((await reading).values.get('T')).toHaveLength(64 * 1024);
  });

  it('are read in a time in all, and those that were read in it are there', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/fast', 'value');
    const meta = aMeta({ FAST: lookups.secret('/fast'), SLOW: lookups.secret('/slow') });
    const read = await new Secrets(box).read(meta, all, { signal, totalMs: 300 });
    expect(read).toEqual({ values: new Map([['FAST', 'value']]), unread: ['SLOW'] });
  });

  it('are not waited for when a run is interrupted', async () => {
    await using lookups = await LookupServer.start();
    const abort = new AbortController();
    const meta = aMeta({ SLOW: lookups.secret('/slow') });
    const reading = new Secrets(box).read(meta, all, { signal: abort.signal });
    while (lookups.requests.length === 0) await new Promise(setImmediate);
    abort.abort('interrupt');
    await expect(reading).rejects.toBe('interrupt');
  });

  it('are stored sealed as a whole, and the last one of a name holds', async () => {
    await using lookups = await LookupServer.start();
    const { url, headers } = lookups.secret('/t');
    const first = withSecrets({ sealedSecrets: {} }, { A: { value: 'plain-value' } }, box);
    const second = withSecrets(
      first,
      { A: lookups.secret('/t'), B: { value: 'plain-value' } },
      box,
    );
    expect(Object.keys(second.sealedSecrets)).toEqual(['B']);
    expect(Object.keys(second.sealedLookups ?? {})).toEqual(['A']);
    for (const text of [url, headers['X-Key'], 'plain-value'])
      expect(JSON.stringify(second)).not.toContain(text);
    const third = withSecrets(second, { A: { value: 'x' } }, box);
    expect(third.sealedLookups).toBeUndefined();
    expect(Object.keys(third.sealedSecrets)).toEqual(['B', 'A']);
  });

  it('hide the secrets in headers and variables of MCP servers, and no other value of these', () => {
    const servers = [
      {
        type: 'http',
        name: 'a',
        url: 'http://mcp/',
        headers: [
          { name: 'Authorization', value: 'Bearer token-of-a' },
          { name: 'Accept', value: 'application/json' },
        ],
      },
      {
        name: 'b',
        command: 'b',
        args: [],
        env: [
          { name: 'B_API_KEY', value: 'key-of-b' },
          { name: 'MODE', value: 'production' },
        ],
      },
    ];
    const meta = { ...aMeta({}), sealedMcpServers: box.seal(JSON.stringify(servers)) };
    const text = 'token-of-a application/json key-of-b production';
    expect(maskText(text, new Secrets(box).needlesOf(meta))).toBe(
      `${hidden} application/json ${hidden} production`,
    );
  });

  it('cost nothing when there are none', () => {
    const closed = {
      open: () => {
        throw new Error('nothing is sealed');
      },
    };
    expect(new Secrets(closed).needlesOf(aMeta({}))).toBe(noNeedles);
  });
});

describe('the variables of a process of an agent', () => {
  it.each([
    ['a name that is no variable', 'A-B', 'x'],
    ['an empty name', '', 'x'],
    ['a value that no process can have', 'A', 'x\0y'],
    ['a value that is too long for the kernel', 'A', 'x'.repeat(121 * 1024)],
    ['HOME', 'HOME', '/'],
    ['PATH', 'PATH', '/'],
    ['NODE_OPTIONS', 'NODE_OPTIONS', '--require=x'],
    ['a variable of the loader', 'LD_PRELOAD', 'x'],
    ['a variable of the vendor', 'OPENAI_API_KEY', 'x'],
  ])('lack %s', (_case, name, value) => {
    const values = new Map([
      [name, value],
      ['TOKEN', 't'],
    ]);
    expect(agentVariablesOf(values, new Set(['OPENAI_API_KEY']))).toEqual({
      env: { TOKEN: 't' },
      skipped: [name],
    });
  });

  it('are bounded in all', () => {
    const value = 'x'.repeat(100 * 1024);
    const values = new Map(Array.from({ length: 12 }, (_none, index) => [`A${index}`, value]));
    const { env, skipped } = agentVariablesOf(values, new Set());
    expect(Object.keys(env)).toHaveLength(10);
    expect(skipped).toEqual(['A10', 'A11']);
  });
});
