import type { Page } from 'playwright-core';
import { eventually } from '../support/eventually.ts';
import { aConversation, aQuota, aSandbox } from '../support/page-records.ts';
import { Window } from './support/browser.ts';
import { FakeService } from './support/fake-service.ts';

/** One more than the connections that a browser has to one service over HTTP/1.1. */
const tabCount = 7;
const titled = (title: string) => aConversation(1, { title });

let service: FakeService;
let window: Window;
let tabs: Page[];
beforeAll(async () => {
  service = await FakeService.start();
  service.snapshots = [
    {
      conversations: [titled('Count apples')],
      sandboxes: [aSandbox(1)],
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
  window = await Window.open({ firstPicture: 151 });
  const context = window.page.context();
  tabs = [window.page];
  while (tabs.length < tabCount) tabs.push(await context.newPage());
});
afterAll(async () => {
  await window.close();
  await service.stop();
});

const seenEverywhere = (title: string) =>
  Promise.all(tabs.map((page) => page.getByRole('link', { name: title }).waitFor()));

describe('Seven tabs of one browser', () => {
  it('show the conversations, and share one stream', async () => {
    for (const page of tabs) await page.goto(service.url);
    await seenEverywhere('Count apples');
    expect(service.openStreams).toBe(1);
  });

  it('show a change, and a write of one of them reaches the service', async () => {
    service.emit('conversation', titled('Count pears'));
    await seenEverywhere('Count pears');
    const status = await tabs[6]?.evaluate(`fetch('/api/v1/quota').then(({ status }) => status)`);
    expect(status).toBe(200);
  });

  it('follow another one where that with the stream is closed', async () => {
    const before = service.openedStreams;
    await tabs.shift()?.close();
    await eventually('another tab has the stream', () => service.openedStreams > before);
    service.emit('conversation', titled('Count plums'));
    await seenEverywhere('Count plums');
  });

  it('let go of the stream while they are hidden, and read everything anew afterwards', async () => {
    const turn = (state: string) =>
      Promise.all(
        tabs.map((page) =>
          page.evaluate(
            `Object.defineProperty(document, 'visibilityState', { configurable: true, value: '${state}' });
             document.dispatchEvent(new Event('visibilitychange'));`,
          ),
        ),
      );
    for (const page of tabs) await page.clock.install();
    await turn('hidden');
    for (const page of tabs) await page.clock.fastForward(31_000);
    await eventually('no tab has a stream', () => service.openStreams === 0);
    service.snapshots = service.snapshots.map((snapshot) => ({
      ...snapshot,
      conversations: [titled('Count cherries')],
    }));
    await turn('visible');
    for (const page of tabs) await page.clock.runFor(1_000);
    await seenEverywhere('Count cherries');
    expect(service.openStreams).toBe(1);
  });

  it('leave for the sign-in together', async () => {
    service.status = 401;
    service.emit('closed', { code: 'key-invalid' });
    await Promise.all(tabs.map((page) => page.waitForURL(/\/login\?return_to=/)));
    service.status = undefined;
  });

  it('leave for the sign-in where one signs out, also without word from the service', async () => {
    for (const page of tabs) await page.goto(service.url);
    await seenEverywhere('Count cherries');
    service.status = 401;
    await tabs.at(-1)?.getByRole('button', { name: 'Sign out' }).click();
    await Promise.all(tabs.slice(0, -1).map((page) => page.waitForURL(/\/login\?return_to=/)));
    service.status = undefined;
  });

  it('leave for the sign-in one after the other where some are hidden, which show nothing', async () => {
    for (const page of tabs) await page.goto(service.url);
    const [visible, ...others] = tabs;
    await visible?.getByRole('link', { name: 'Count cherries' }).waitFor();
    const turn = (page: Page, state: string) =>
      page.evaluate(
        `Object.defineProperty(document, 'visibilityState', { configurable: true, value: '${state}' });
         document.dispatchEvent(new Event('visibilitychange'));`,
      );
    for (const page of others) await turn(page, 'hidden');
    service.status = 401;
    service.emit('closed', { code: 'key-invalid' });
    await visible?.waitForURL(/\/login\?return_to=/);
    for (const page of others) await page.locator('body[hidden]').waitFor({ state: 'attached' });
    for (const page of others) {
      await turn(page, 'visible');
      await page.waitForURL(/\/login\?return_to=/);
    }
  });
});
