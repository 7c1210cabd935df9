import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@conversation-operator/base/clock';
import { Refusals } from '../../../src/gateway/audit/refusals.ts';
import { auditFile } from '../../../src/observability/audit-file.ts';
import { auditTo, type AuditKind, type AuditLine } from '../../../src/observability/audit.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { CookieBrowser } from '../../support/gateway/cookie-browser.ts';
import { recordingLogger } from '../../support/recording-logger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { generateKey } from '../../../src/gateway/auth/key.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, type RequestOptions } from '../../support/gateway/test-gateway.ts';

const secret = 'an unmistakable text';
const body = {
  initial_message: { content: [{ type: 'text', text: secret }] },
  initial_user_msg: secret,
  name: secret,
};

describe('the audit', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start({ trustedProxies: ['loopback'] });
  });
  afterAll(() => gateway.stop());

  const lines = (requestId: string) =>
    gateway.log
      .filter(({ message, fields }) => message === 'Write' && fields['requestId'] === requestId)
      .map(({ fields }) => fields);
  /** Sends, reads the answer as far as it goes, and returns the lines about it. */
  const linesAbout = async (method: string, path: string, id: string, options: RequestOptions) => {
    const headers = { 'x-request-id': id, 'x-forwarded-for': '198.51.100.7', ...options.headers };
    const response = await gateway.open(method, path, { ...options, headers });
    response.destroy();
    await eventually('the request is over', () =>
      gateway.log.some(
        ({ message, fields }) => message === 'Request' && fields['requestId'] === id,
      ),
    );
    return { status: response.statusCode, lines: lines(id) };
  };
  const writes = () =>
    gateway.gateway.routes.filter(({ method, access }) => method !== 'get' && access === 'key');
  const pathOf = (path: string) => path.replaceAll(/\{\w+\}/g, 'none');

  it('has one line for each write, with who, what, from where and the outcome', async () => {
    for (const { method, path, operationId } of writes()) {
      const about = await linesAbout(method.toUpperCase(), pathOf(path), operationId, { body });
      expect(about.lines).toEqual([
        expect.objectContaining({
          action: operationId,
          owner: 'alice',
          key: expect.stringMatching(/^key-[0-9a-f]{12}$/) as string,
          client: '198.51.100.7',
          status: about.status,
          outcome: expect.stringMatching(
            (about.status ?? 0) < 300 ? /^ok$/ : /^(not-found|invalid-request)$/,
          ) as string,
        }),
      ]);
    }
  });

  it('has none for reads, nor for what is refused before it is known who asks', async () => {
    expect((await linesAbout('GET', '/api/v1/users/me', 'read', {})).lines).toEqual([]);
    expect((await linesAbout('HEAD', '/api/v1/users/me', 'head', {})).lines).toEqual([]);
    for (const { method, path, operationId } of writes()) {
      const about = await linesAbout(method.toUpperCase(), pathOf(path), `no-key-${operationId}`, {
        key: null,
        body,
      });
      expect(about).toEqual({ status: 401, lines: [] });
    }
  });

  const ofKind = (kind: AuditKind, of = gateway) =>
    of.log.filter(({ message }) => message === kind).map(({ fields }) => fields);

  it('has a key that is made and revoked, with who makes it and whom it is for', async () => {
    const made = await gateway.post('/api/keys', { name: 'x', scopes: ['read'] });
    const { id, key } = made.json as { readonly id: string; readonly key: string };
    await gateway.send('DELETE', `/api/keys/${id}`);
    const who = {
      owner: 'alice',
      client: '127.0.0.1',
      key: expect.stringMatching(/^key-/) as string,
    };
    expect(ofKind('KeyCreated').at(-1)).toMatchObject({
      ...who,
      made: id,
      madeFor: 'alice',
      role: 'user',
      scopes: ['read'],
    });
    expect(ofKind('KeyRevoked').at(-1)).toMatchObject({ ...who, revoked: id, revokedOf: 'alice' });
    expect(JSON.stringify(gateway.log)).not.toContain(key);
  });

  it('has a session that begins and ends, and what was done in it', async () => {
    const browser = new CookieBrowser(gateway);
    await browser.submit('/login', { api_key: gateway.alice });
    const [session] = ofKind('SignIn').slice(-1);
    const keyName = expect.stringMatching(/^key-/) as string;
    expect(session).toMatchObject({ way: 'key', owner: 'alice', session: keyName, isNew: true });
    expect(session?.['credential']).not.toBe(session?.['session']);
    await browser.fetch('POST', '/api/keys', { name: 'x' });
    const who = { owner: 'alice', key: session?.['session'], session: session?.['session'] };
    expect(ofKind('KeyCreated').at(-1)).toMatchObject(who);
    await browser.submit('/logout', {});
    expect(ofKind('SessionEnded').at(-1)).toMatchObject({ ...who, reason: 'SignedOut' });
    await browser.submit('/login', { api_key: 'co_wrong' });
    expect(ofKind('SignInRefused').at(-1)).toMatchObject({ way: 'key', client: '127.0.0.1' });
  });

  it('has refusals of a key, of a scope and of a session key, with who is known', async () => {
    const made = await gateway.post('/api/keys', { name: 'x', scopes: ['read'] });
    const { key, id } = made.json as { readonly id: string; readonly key: string };
    const from = (client: string) => ({ headers: { 'x-forwarded-for': client } });
    await gateway.get('/api/v1/users/me', { key: 'co_wrong', ...from('192.0.2.1') });
    await gateway.post('/api/v1/sandboxes', {}, { key, ...from('192.0.2.1') });
    await gateway.get('/sandboxes/sbx-none/AGENT_SERVER/api/tools', {
      key: null,
      ...from('192.0.2.1'),
    });
    const lines = ofKind('Refused').filter(({ client }) => client === '192.0.2.1');
    expect(lines).toMatchObject([
      { action: 'getUser', status: 401, outcome: 'unauthorized' },
      {
        action: 'startSandbox',
        status: 403,
        outcome: 'insufficient-scope',
        owner: 'alice',
        key: id,
      },
      { action: 'passToAgent', sandbox: 'sbx-none', status: 401, outcome: 'unauthorized' },
    ]);
    expect(lines[0]).not.toHaveProperty('owner');
  });

  it('bounds the lines of a flood, and has its number', async () => {
    const clock = new VirtualClock();
    const lines: AuditLine<'Refused'>[] = [];
    const refusals = new Refusals({
      clock,
      audit: (_kind, line) => void lines.push(line as AuditLine<'Refused'>),
    });
    const flood = (client: string, requestId = 'r') =>
      refusals.record({
        requestId,
        client,
        action: 'getUser',
        status: 401,
        outcome: 'unauthorized',
      });
    for (let index = 0; index < 1_000; index++) flood('192.0.2.1', `r${index}`);
    // All addresses of an IPv6 /64 are one client.
    for (let index = 0; index < 1_000; index++) flood(`2001:db8::${index.toString(16)}`);
    expect(lines).toHaveLength(20);
    await clock.advance(60_000);
    expect(lines.slice(20)).toMatchObject([
      { client: '192.0.2.1', requestId: 'r999', repeats: 990 },
      { client: '2001:db8::3e7', repeats: 990 },
    ]);
    lines.length = 0;
    for (let index = 0; index < 10_000; index++) flood(`10.${index >> 8}.${index & 255}.1`);
    expect(lines.length).toBeLessThanOrEqual(510);
    refusals.close();
    const counted = lines.reduce((sum, { repeats = 1 }) => sum + repeats, 0);
    expect(counted).toBe(10_000);
    expect(clock.timers).toBe(0);
  });

  it('is in its file to the last line, without a key, once the gateway has stopped', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'audit-'));
    const path = join(folder, 'audit.jsonl');
    const { logger: fallback, lines: lost } = recordingLogger();
    const metrics = createMetrics();
    const audit = auditTo(auditFile({ path, clock: systemClock, fallback, metrics }));
    const other = await gateway.replica({ audit });
    const key = generateKey();
    for (let index = 0; index < 25; index++) await other.get('/api/v1/users/me', { key });
    const made = await other.post('/api/keys', { name: secret });
    await other.stop();
    const text = readFileSync(path, 'utf8');
    const all = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { readonly message: string; readonly repeats?: number });
    expect(all.map(({ message, repeats }) => `${message} ${repeats ?? ''}`.trim())).toEqual([
      ...Array.from({ length: 10 }, () => 'Refused'),
      'KeyCreated',
      'Write',
      'Refused 15',
    ]);
    const { key: answered } = made.json as { readonly key: string };
    for (const hidden of [secret, key, answered, other.alice]) expect(text).not.toContain(hidden);
    expect(lost).toEqual([]);
    rmSync(folder, { recursive: true });
  });

  it('names the problem of a write that was refused', async () => {
    const about = await linesAbout('POST', '/api/keys', 'refused', {
      body: { name: 'x', owner: 'bob' },
    });
    expect(about.lines).toMatchObject([
      { action: 'createKey', status: 403, outcome: 'forbidden', target: undefined },
    ]);
  });

  it('holds no key and no text of a message, nor does any other line', async () => {
    const key = generateKey();
    await gateway.get('/api/v1/users/me', { headers: { 'x-request-id': key } });
    const all = JSON.stringify(gateway.log);
    for (const hidden of [secret, gateway.alice, gateway.bob, key])
      expect(all).not.toContain(hidden);
  });
});
