import { Installation } from '../support/installation.ts';
import { Window } from './support/browser.ts';
import { signInByLink } from './support/sign-in.ts';

let up: Installation;
let window: Window;
beforeAll(async () => {
  up = await Installation.start({ env: { UI: 'false' } });
  window = await Window.open({ firstPicture: 31 });
});
afterAll(async () => {
  await window.close();
  await up.stop();
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

describe('/docs', () => {
  it('shows what there is to call, and one call with all of its parts', async () => {
    const { page } = window;
    await page.goto(`${up.url}/docs`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await window.picture('docs');
    await page.locator('#searchConversations > summary').click();
    await page.locator('#searchConversations').getByText('title__contains').waitFor();
    await page.locator('#searchConversations').getByText('200').first().click();
    await window.picture('docs of one call');
    expect(await page.title()).toMatch(/\d+\.\d+\.\d+$/);
  });

  it('fits into a small window', async () => {
    const { page } = window;
    await page.setViewportSize({ width: 360, height: 740 });
    await page.goto(`${up.url}/docs`);
    // Also the texts that a click shows.
    await page.evaluate(`for (const one of document.querySelectorAll('details')) one.open = true`);
    const overflow = `[...document.querySelectorAll('body *')].filter((one) =>
      one.closest('pre') === null && one.getBoundingClientRect().right > innerWidth + 1)
      .map((one) => one.outerHTML.slice(0, 200)).slice(0, 5)`;
    expect(await page.evaluate(overflow)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('leads to the schemas, and to the document itself', async () => {
    const { page } = window;
    await page.goto(`${up.url}/docs`);
    await page.getByRole('link', { name: 'openapi.json' }).click();
    await page.waitForURL(/openapi\.json$/);
  });
});

describe('/conversations/{id} without the web UI', () => {
  it('leads to the page of the conversation', async () => {
    const { page } = window;
    await signInByLink(window, up.output);
    await page.waitForURL(`${up.url}/`);
    const { id: task } = await up.start('Say hello:\n```sh\necho hello\n```');
    const { app_conversation_id: id } = await up.over(task);
    await page.goto(`${up.url}/conversations/${id ?? ''}`);
    await page.waitForURL(`${up.url}/c/${id ?? ''}`);
    await page.getByRole('heading', { name: 'Say hello:' }).waitFor();
    expect(await page.getByRole('link', { name: 'Open chat' }).count()).toBe(0);
    await window.picture('a conversation without the web UI');
  });
});
