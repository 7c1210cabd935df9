import type { HandoverRecord } from '../../src/web/wire.ts';
import { hostileText } from '../support/page-overview.ts';
import { aConversation, anAccount, aQuota, aSandbox, idOf } from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(211);

const ok = (json: unknown) => ({ status: 200, json });
const later = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
type Facts = NonNullable<HandoverRecord['conversation']>;
const facts: Facts = {
  title: 'Fix the login',
  repository: 'acme/app',
  branch: 'main',
  git_provider: 'github',
  sandbox_spec_id: 'default',
  model: null,
  sandbox_status: 'PAUSED',
  execution_status: 'paused',
  waiting_messages: 1,
  confirmation_policy: 'NeverConfirm',
  instructions: 'Answer in one sentence.',
  waits_for_approval: true,
  secrets_of_start: ['NPM_TOKEN'],
  archived_events: 1200,
  archived_bytes: 3_000_000,
  stored_bytes: 12_000,
  updated_at: later(-1),
};
const anOffer = (fields: Partial<HandoverRecord> = {}): HandoverRecord => ({
  id: 'handover-1',
  status: 'offered',
  reason: null,
  detail: null,
  conversation_id: idOf(1),
  from: 'alice',
  to: 'company:bob',
  created_at: later(-2),
  expires_at: later(24.5),
  answered_at: null,
  answered_by: null,
  finished_at: null,
  conversation: facts,
  moves: ['The conversation, with its events.', 'The sandbox, with its files.'],
  stays: ['Secrets of the old owner.'],
  consequences: ['A run is interrupted.'],
  ...fields,
});
const toMe = (fields: Partial<HandoverRecord> = {}) =>
  anOffer({
    from: 'company:bob',
    to: 'alice',
    conversation: { ...facts, title: hostileText },
    ...fields,
  });
const answerOffers = (...offers: readonly HandoverRecord[]) =>
  service.answers.set('GET /api/v1/handovers', ok(offers));

beforeEach(() => {
  service.snapshots = [
    {
      conversations: [aConversation(1, { title: 'Fix the login' })],
      sandboxes: [aSandbox(1)],
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
  service.calls.length = 0;
  service.answers.clear();
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const dialog = () => window.page.getByRole('dialog', { name: 'Hand over' });
const within = (name: string) => dialog().getByRole('button', { name, exact: true });
const calls = () => service.calls.map(({ method, path }) => `${method} ${path}`);
const openDialog = async () => {
  const { page } = window;
  await page.goto(`${service.url}/c/${idOf(1)}`);
  await page.getByRole('button', { name: 'More for Fix the login' }).click();
  await page.getByRole('button', { name: 'Hand over…' }).click();
  await dialog().getByText('What moves').waitFor();
};
const openHome = async () => {
  await window.page.goto(service.url);
  await offers().waitFor();
};
const offers = () => window.page.getByRole('region', { name: 'Offered to you' });
const openOffer = async () => {
  await openHome();
  await offers().getByText('from company:bob').click();
};
const button = (name: string) => offers().getByRole('button', { name, exact: true });

describe('the owner of a conversation', () => {
  it.each([
    ['wide', 1280],
    ['on a phone', 360],
  ])('reads what moves before the offer, %s', async (name, width) => {
    const { page } = window;
    await page.setViewportSize({ width, height: 800 });
    await openDialog();
    await window.picture(`hand over ${name}`);
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('is asked, offers it, sees the state, and withdraws', async () => {
    await openDialog();
    await dialog().getByLabel('To whom').fill(' company:bob ');
    await within('Offer…').click();
    await dialog().getByText('Offer “Fix the login” to company:bob?').waitFor();
    expect(calls()).toEqual([]);
    answerOffers(anOffer());
    await within('Offer').click();
    await dialog().getByText('Offered to company:bob, who has not answered.').waitFor();
    expect(service.calls.map(({ path, body }) => [path, body])).toEqual([
      [`/api/v1/app-conversations/${idOf(1)}/handover`, { to: 'company:bob' }],
    ]);
    expect(await within('Offer…').count()).toBe(0);
    await window.picture('hand over offered');
    expect(await violationsIn(window.page)).toEqual([]);
    await within('Withdraw Fix the login').click();
    await dialog().getByText('Withdraw the offer to company:bob?').waitFor();
    answerOffers(
      anOffer({ status: 'refused', conversation: null, detail: 'The offer was withdrawn.' }),
    );
    await within('Withdraw').click();
    await dialog()
      .getByText('The offer to company:bob is over. The offer was withdrawn.')
      .waitFor();
    expect(calls().at(-1)).toBe('DELETE /api/v1/handovers/handover-1');
    await within('Offer…').waitFor();
  });

  it('reads why an offer was refused, and keeps the name', async () => {
    const detail = 'The sandbox has the conversation “Write docs” too.';
    service.answers.set(`POST /api/v1/app-conversations/${idOf(1)}/handover`, {
      status: 409,
      json: { detail },
    });
    await openDialog();
    await dialog().getByLabel('To whom').fill('bob');
    await within('Offer…').click();
    await within('Offer').click();
    await dialog().getByRole('alert').getByText(detail).waitFor();
    expect(await dialog().getByLabel('To whom').inputValue()).toBe('bob');
    window.faults();
  });

  it('sees the offer on the page, and then who has it instead of a deletion', async () => {
    const { page } = window;
    answerOffers(anOffer());
    await page.goto(`${service.url}/c/${idOf(1)}`);
    await page.getByText('Offered to company:bob, who has not answered.').waitFor();
    answerOffers(anOffer({ status: 'moving', conversation: null }));
    service.emit('removed', { kind: 'conversation', id: idOf(1) });
    await page
      .getByRole('heading', { name: '“Fix the login” was handed over to company:bob.' })
      .waitFor();
    await window.picture('handed over');
    service.snapshots = service.snapshots.map((one) => ({ ...one, conversations: [] }));
    await page.reload();
    await page
      .getByRole('heading', { name: 'This conversation was handed over to company:bob.' })
      .waitFor();
    answerOffers();
    await page.reload();
    await page.getByRole('heading', { name: 'There is nothing at this address.' }).waitFor();
  });
});

describe('the new owner', () => {
  it.each([
    ['wide', 1280],
    ['on a phone', 360],
  ])('reads the whole offer above the list, %s', async (name, width) => {
    const { page } = window;
    await page.setViewportSize({ width, height: 800 });
    answerOffers(toMe(), anOffer());
    await openOffer();
    expect(await offers().getByRole('heading', { level: 3 }).allTextContents()).toEqual([
      hostileText,
    ]);
    for (const text of [
      'acme/app@main (github)',
      'an answer to a question of the agent',
      'Messages that the agent has not had, removed',
      'NeverConfirm',
      'Answer in one sentence.',
      '1,200 events, 2.9 MiB',
      'NPM_TOKEN',
      'The sandbox, with its files.',
      'Secrets of the old owner.',
      'A run is interrupted.',
    ])
      await offers().getByText(text).waitFor();
    await window.picture(`offered ${name}`);
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('is asked before it accepts, and is led to what is now its own', async () => {
    answerOffers(toMe());
    await openOffer();
    await button(`Accept ${hostileText}`).click();
    await offers().getByText('Take it over from company:bob? It counts in your quota.').waitFor();
    expect(calls()).toEqual([]);
    answerOffers(toMe({ status: 'moving' }));
    await button('Accept').click();
    await offers().getByText('Moving from company:bob to you…').waitFor();
    expect(calls()).toEqual(['POST /api/v1/handovers/handover-1/accept']);
    answerOffers(toMe({ status: 'done' }));
    await offers().getByRole('link', { name: 'Open it' }).waitFor();
    await window.picture('accepted');
    expect(await violationsIn(window.page)).toEqual([]);
  });

  it('refuses, and the offer disappears', async () => {
    answerOffers(toMe());
    await openOffer();
    await button(`Refuse ${hostileText}`).click();
    await offers().getByText('Refuse? It stays with company:bob.').waitFor();
    answerOffers(toMe({ status: 'refused' }));
    await button('Refuse').click();
    await offers().waitFor({ state: 'detached' });
    expect(calls()).toEqual(['POST /api/v1/handovers/handover-1/refuse']);
  });

  it('reads why the service can not give it', async () => {
    const detail = 'The quota default allows 10 conversations; you have 10.';
    service.answers.set('POST /api/v1/handovers/handover-1/accept', {
      status: 429,
      json: { detail },
    });
    answerOffers(toMe());
    await openOffer();
    await button(`Accept ${hostileText}`).click();
    await button('Accept').click();
    await offers().getByText(detail).waitFor();
    await button('Dismiss').click();
    await button(`Accept ${hostileText}`).waitFor();
    window.faults();
  });

  it('reads the offer without buttons where it may read only', async () => {
    service.answers.set('GET /api/v1/users/me', ok(anAccount({ scopes: ['read'] })));
    answerOffers(toMe());
    await openOffer();
    await offers().getByText('You may read only.').waitFor();
    expect(await offers().getByRole('button').count()).toBe(0);
  });

  it('gets an offer that comes while the page is open, when it looks again', async () => {
    const { page } = window;
    await page.goto(service.url);
    await page.getByRole('link', { name: 'Fix the login' }).waitFor();
    answerOffers(toMe());
    await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
    await offers().waitFor();
  });
});
