import type { Snapshot } from '../../src/web/wire.ts';
import { violationsIn } from './support/accessibility.ts';
import { aConversation, aQuota, aSandbox, idOf } from '../support/page-records.ts';
import { openPages } from './support/pages.ts';

const dayMs = 86_400_000;
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();

const snapshotOf = (fields: Parameters<typeof aConversation>[1]): Snapshot => ({
  conversations: [aConversation(1, fields)],
  sandboxes: [aSandbox(1)],
  start_tasks: [],
  quota: aQuota(),
  last: true,
});

const { service, window } = await openPages(95);

describe.each([
  ['a day ahead', dayMs],
  ['a day behind', -dayMs],
])('With the clock of the browser %s', (_where, offsetMs) => {
  it.each(['/', `/c/${idOf(1)}`])('%s shows times by the clock of the service', async (path) => {
    const page = await window.page.context().newPage();
    try {
      await page.addInitScript((ms) => {
        const { now } = Date;
        Date.now = () => now() + ms;
      }, offsetMs);
      const fields = { updated_at: minutesAgo(3), execution_status: 'running' } as const;
      service.snapshots = [snapshotOf(fields)];
      await page.goto(service.url + path);
      await page.getByText('Running. Last activity 3 min ago.').waitFor();
      expect(await violationsIn(page)).toEqual([]);
      service.emit('conversation', aConversation(1, { ...fields, updated_at: minutesAgo(0) }));
      await page.getByText('Running. Last activity just now.').waitFor();
      expect(page.url()).toBe(service.url + path);
    } finally {
      await page.close();
    }
  });
});

describe.each([
  ['is out of reach', () => service.goAway(), () => service.comeBack()],
  [
    'answers nothing but 503',
    () => {
      service.status = 503;
      service.breakStreams();
      return Promise.resolve();
    },
    () => {
      service.status = undefined;
      return Promise.resolve();
    },
  ],
] as const)('While the service %s', (_how, leave, comeBack) => {
  it.each(['/', `/c/${idOf(1)}`])('%s says so in one line, and recovers', async (path) => {
    const { page } = window;
    const line = page.getByText(/^No connection\. Last news \d+:\d\d:\d\d [AP]M\. Attempt \d+…$/);
    service.snapshots = [snapshotOf({ execution_status: 'running' })];
    await page.goto(service.url + path);
    await page.getByText(/^Running\. Last activity/).waitFor();
    await page.evaluate('globalThis.isSamePage = true');
    await leave();
    await line.waitFor();
    // In this time the page asks for the events of an agent that works.
    await page.waitForTimeout(3_000);
    await window.picture('the service is away');
    expect(await page.locator('[role=alert]').allTextContents()).toEqual([]);
    expect(await page.getByText(/^Running\. Last activity/).count()).toBe(1);
    expect(await violationsIn(page)).toEqual([]);
    service.snapshots = [snapshotOf({ execution_status: 'stuck' })];
    await comeBack();
    await line.waitFor({ state: 'detached' });
    await page.getByText('The agent makes no progress').waitFor();
    expect(await page.locator('[role=alert]').allTextContents()).toEqual([]);
    expect([await page.evaluate('isSamePage'), page.url()]).toEqual([true, service.url + path]);
  });
});
