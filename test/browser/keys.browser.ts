import type { ApiKeyRecord } from '../../src/web/wire.ts';
import { aKey, hostileText } from '../support/page-overview.ts';
import { aQuota } from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(121);

const ok = (json: unknown) => ({ status: 200, json });
const dayMs = 86_400_000;
const inDays = (days: number) => new Date(Date.now() + days * dayMs + 60_000).toISOString();
const own = aKey('key-own', {
  name: 'The session of a person in a browser.',
  expires_at: inDays(6),
  issued_by: 'key-laptop',
});
const laptop = aKey('key-laptop', { name: 'Laptop' });
const script = aKey('key-ci', { name: hostileText, last_used_at: null });
const answerKeys = (...keys: readonly ApiKeyRecord[]) =>
  service.answers.set('GET /api/keys', ok(keys));

beforeEach(() => {
  service.snapshots = [
    { conversations: [], start_tasks: [], sandboxes: [], quota: aQuota(), last: true },
  ];
  service.calls.length = 0;
  service.answers.clear();
  service.answers.set(
    'GET /api/v1/settings',
    ok({
      llm_api_key_set: true,
      llm_model: 'default',
      own_llm_model: null,
      default_llm_model: null,
      provider_tokens_set: {},
      mcp_config: {},
      git_user_name: null,
      git_user_email: null,
      git_co_author: true,
    }),
  );
  service.answers.set('GET /api/keys/current', ok({ id: 'key-own' }));
  answerKeys(laptop, own, script);
});
afterEach(() => {
  expect([...window.outside]).toEqual([]);
});

const section = () => window.page.getByRole('region', { name: 'API keys' });
const item = (name: string) => section().getByRole('listitem').filter({ hasText: name });
const open = async () => {
  await window.page.goto(`${service.url}/account`);
  await item('Laptop').waitFor();
};

describe('the API keys of an owner', () => {
  it.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 360],
  ] as const)('show in %s at %i pixels when each was used and ends', async (colorScheme, width) => {
    const { page } = window;
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    await open();
    await item('Laptop').getByText('last used 1 h ago · ends never').waitFor();
    await item('The session')
      .getByText(/^this session · .* · ends in 6 d$/)
      .waitFor();
    await item(hostileText).getByText('last used never').waitFor();
    await section().scrollIntoViewIfNeeded();
    await window.picture(`keys ${width} ${colorScheme}`);
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1280, height: 800 });
    expect(window.faults()).toEqual([]);
  });

  it('get one more, whose value is shown once and copied', async () => {
    const { page } = window;
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await open();
    service.answers.set('POST /api/keys', {
      status: 201,
      json: { ...aKey('key-new', { name: 'CI', expires_at: inDays(1) }), key: 'co_s3cret' },
    });
    await section().getByLabel('Name').fill('CI');
    await section().getByRole('button', { name: 'Make a key' }).click();
    await item('CI').getByText('ends in 1 d').waitFor();
    expect(service.calls).toEqual([{ method: 'POST', path: '/api/keys', body: { name: 'CI' } }]);
    expect(
      await section()
        .getByLabel(/shown only now/)
        .inputValue(),
    ).toBe('co_s3cret');
    await section().getByRole('button', { name: 'Copy' }).click();
    await section().getByText('Copied.').waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe('co_s3cret');
    await window.picture('key made');
    expect(await violationsIn(page)).toEqual([]);
    await open();
    expect(await page.content()).not.toContain('co_s3cret');
    expect(
      await section()
        .getByLabel(/shown only now/)
        .count(),
    ).toBe(0);
  });

  it('get one with an end in the time of the person, or the reason why not', async () => {
    await open();
    service.answers.set('POST /api/keys', {
      status: 422,
      json: { detail: 'must not be later than the expiry of the key that makes it' },
    });
    await section().getByLabel('Name').fill('CI');
    await section().getByLabel(/^Ends/).fill('2030-05-06T07:08');
    await section().getByRole('button', { name: 'Make a key' }).click();
    await section().getByText('must not be later').waitFor();
    const expires_at = await window.page.evaluate('new Date("2030-05-06T07:08").toISOString()');
    expect(service.calls).toMatchObject([{ body: { name: 'CI', expires_at } }]);
    expect(await section().getByLabel('Name').inputValue()).toBe('CI');
    expect(window.faults()).toEqual([expect.stringMatching(/^POST 422 /)]);
  });

  it('are revoked after one question', async () => {
    await open();
    const revoke = () => item(hostileText).getByRole('button', { name: 'Revoke' }).click();
    await revoke();
    await item(hostileText).getByRole('button', { name: 'Keep' }).click();
    expect(service.calls).toEqual([]);
    answerKeys(laptop, own);
    await revoke();
    await item(hostileText).getByRole('button', { name: 'Revoke', exact: true }).click();
    await item(hostileText).waitFor({ state: 'detached' });
    expect(service.calls).toMatchObject([{ method: 'DELETE', path: '/api/keys/key-ci' }]);
  });

  it.each(['The session', 'Laptop'])('say that the session ends with %s', async (name) => {
    await open();
    await item(name).getByRole('button', { name: 'Revoke' }).click();
    await item(name).getByText('Revoke, and sign out?').waitFor();
  });

  it('lead to the description of the API and back, in every window', async () => {
    const { page } = window;
    await open();
    await section().getByRole('link', { name: 'What the API offers' }).click();
    await page.getByRole('heading', { name: /^conversation-operator/i }).waitFor();
    await page.getByRole('link', { name: 'All conversations' }).click();
    await page.waitForURL(`${service.url}/`);
    await page.getByRole('link', { name: 'API', exact: true }).click();
    await page.waitForURL(`${service.url}/docs`);
  });

  it('say why they can not be read, and are read again', async () => {
    service.answers.set('GET /api/keys', { status: 503, json: { detail: 'Too much to do.' } });
    await window.page.goto(`${service.url}/account`);
    await section().getByText('Too much to do.').waitFor();
    answerKeys(laptop);
    await section().getByRole('button', { name: 'Try again' }).click();
    await item('Laptop').waitFor();
    window.faults();
  });
});
