import type { ShareRecord } from '../../src/web/wire.ts';
import { hostileText } from '../support/page-overview.ts';
import { aConversation, aQuota, aSandbox, idOf } from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(201);

const id = idOf(1);
const path = `/api/v1/app-conversations/${id}/shares`;
const ok = (json: unknown) => ({ status: 200, json });
const later = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
const aShare = (fields: Partial<ShareRecord> = {}): ShareRecord => ({
  id: 'share-1',
  subject: { kind: 'link', name: null },
  created_at: later(-2),
  created_by: 'key-own',
  expires_at: later(24.5),
  ...fields,
});
const answerShares = (...shares: readonly ShareRecord[]) =>
  service.answers.set(`GET ${path}`, ok(shares));
const url = 'http://127.0.0.1:1/shared/cs_0123456789abcdefghijklmnopqr';

beforeEach(async () => {
  service.snapshots = [
    {
      conversations: [aConversation(1, { title: hostileText })],
      sandboxes: [aSandbox(1)],
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
  service.calls.length = 0;
  service.answers.clear();
  answerShares();
  await window.page.goto(`${service.url}/c/${id}`);
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const dialog = () => window.page.getByRole('dialog', { name: 'Share' });
const choice = (name: string) => dialog().getByRole('combobox', { name });
const button = (name: string) => dialog().getByRole('button', { name, exact: true });
const open = async () => {
  await window.page.getByRole('button', { name: 'More for' }).click();
  await window.page.getByRole('button', { name: 'Share…' }).click();
  await dialog().getByRole('heading', { name: 'Who may read' }).waitFor();
};

describe('the dialog of shares', () => {
  it.each([
    ['wide', 1280],
    ['on a phone', 360],
  ])('says what readers see and who they are, %s', async (name, width) => {
    const { page } = window;
    await page.setViewportSize({ width, height: 800 });
    answerShares(
      aShare(),
      aShare({ id: 'share-2', subject: { kind: 'user', name: 'company:bob' }, expires_at: null }),
      aShare({ id: 'share-3', subject: { kind: 'group', name: `company:${hostileText}` } }),
    );
    await open();
    await dialog().getByText('Person company:bob').waitFor();
    expect(await dialog().getByRole('listitem').count()).toBe(3);
    await dialog()
      .getByText(/also what\s+comes later/)
      .waitFor();
    await window.picture(`share ${name}`);
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('creates a link, shows it once and lists it', async () => {
    const { page } = window;
    await open();
    await dialog().getByText('Nobody but you.').waitFor();
    service.answers.set(`POST ${path}`, { status: 201, json: { ...aShare(), url } });
    answerShares(aShare());
    await button('Create the link').click();
    const field = dialog().getByLabel('The link. It is shown only now');
    expect(await field.inputValue()).toBe(url);
    await dialog().getByRole('listitem').getByText('Anyone who has the link').waitFor();
    const [call] = service.calls;
    const { expires_at: end, ...body } = call?.body as Readonly<Record<string, string>>;
    expect([call?.method, call?.path, body]).toEqual(['POST', path, { subject: { kind: 'link' } }]);
    expect(Math.abs(Date.parse(end ?? '') - Date.parse(later(7 * 24)))).toBeLessThan(60_000);
    await window.picture('share created', { fullPage: true });
    expect(await violationsIn(page)).toEqual([]);
    await button('Close').click();
    await open();
    expect(await dialog().getByLabel('The link. ').count()).toBe(0);
  });

  it('shares with one person, without an end', async () => {
    await open();
    await choice('Who').selectOption('One person');
    await dialog().getByLabel('Owner').fill(' company:bob ');
    await choice('Ends').selectOption('Never');
    await button('Create the link').click();
    await dialog().getByText('Creating…').waitFor({ state: 'detached' });
    expect(service.calls.map(({ body }) => body)).toEqual([
      { subject: { kind: 'user', name: 'company:bob' } },
    ]);
  });

  it('tells why a share was refused, and keeps what was typed', async () => {
    const refusal = 'There is no group company:x. The groups are: company:developers.';
    service.answers.set(`POST ${path}`, { status: 422, json: { detail: refusal } });
    await open();
    await choice('Who').selectOption('A group');
    await dialog().getByRole('textbox', { name: 'Group' }).fill('company:x');
    await choice('Ends').selectOption('On a date…');
    await dialog().getByRole('textbox', { name: 'Date' }).fill('2099-01-01T10:00');
    await button('Create the link').click();
    await dialog().getByRole('alert').getByText(refusal).waitFor();
    expect(await dialog().getByRole('textbox', { name: 'Group' }).inputValue()).toBe('company:x');
    expect(service.calls[0]?.body).toEqual({
      subject: { kind: 'group', name: 'company:x' },
      expires_at: new Date('2099-01-01T10:00').toISOString(),
    });
    window.faults();
  });

  it('asks before it revokes, and removes the reader', async () => {
    answerShares(aShare({ subject: { kind: 'user', name: 'bob' } }));
    await open();
    await button('Revoke Person bob').click();
    await dialog().getByText('Revoke? The link then opens nothing.').waitFor();
    expect(service.calls).toEqual([]);
    await button('Revoke').click();
    await dialog().getByText('Nobody but you.').waitFor();
    expect(service.calls.map((call) => `${call.method} ${call.path}`)).toEqual([
      `DELETE ${path}/share-1`,
    ]);
  });

  it('opens from the list by the keyboard, and gives the focus back', async () => {
    const { page } = window;
    await page.goto(service.url);
    const more = page.getByRole('button', { name: 'More for' });
    await more.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Share…' }).focus();
    await page.keyboard.press('Enter');
    await dialog().getByText('Nobody but you.').waitFor();
    // Keys of the page do nothing in a dialog.
    await page.keyboard.press('n');
    await page.keyboard.press('Escape');
    await dialog().waitFor({ state: 'detached' });
    expect(await page.locator(':focus').count()).toBe(1);
  });
});
