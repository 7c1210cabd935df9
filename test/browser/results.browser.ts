import { Installation } from '../support/installation.ts';
import { violationsIn } from './support/accessibility.ts';
import { Window } from './support/browser.ts';
import { signInByLink } from './support/sign-in.ts';

let up: Installation;
let window: Window;
beforeAll(async () => {
  up = await Installation.start({ env: { UI: 'false' } });
  window = await Window.open({ firstPicture: 171 });
  await signInByLink(window, up.output);
  await window.page.waitForURL(`${up.url}/`);
});
afterAll(async () => {
  await window.close();
  await up.stop();
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const shell = (title: string, command: string) => `${title}:\n\`\`\`sh\n${command}\n\`\`\``;
const row = (group: string, title: string) =>
  window.page.getByRole('region', { name: group }).getByRole('listitem').filter({ hasText: title });

async function start(text: string): Promise<string> {
  const { app_conversation_id: id } = await up.over((await up.start(text)).id);
  return id ?? '';
}

describe('the row of a run that is over', () => {
  let failed = '';

  it('has the last words of the agent', async () => {
    await start(shell('Say hello', 'echo hello'));
    const done = row('Finished', 'Say hello');
    await done.getByText('All blocks succeeded. 1. `echo hello`: exit code 0').waitFor();
    await done.getByText('Done', { exact: false }).waitFor();
    await done.locator('.pill', { hasText: 'Finished' }).waitFor();
  });

  it('says in the first group that its last command failed', async () => {
    failed = await start(shell('Break it', 'exit 3'));
    const broken = row('Needs you', 'Break it');
    await broken.getByText('The last command failed: exit code 3.').waitFor();
    await broken.locator('.pill', { hasText: 'Tool failed' }).waitFor();
    expect(await broken.getByText(/\bDone\b/).count()).toBe(0);
    expect((await up.conversation(failed)).last_result).toEqual({
      reason: 'tool-failed',
      detail: 'The last command failed: exit code 3.',
      exit_code: 3,
      message: 'Block 1 failed, so I stopped there. 1. `exit 3`: exit code 3',
    });
  });

  it('says that the agent has no model and did nothing, and what helps', async () => {
    await start('Write a poem.');
    const idle = row('Needs you', 'Write a poem.');
    await idle.getByText('No model is configured, so nothing was done.').waitFor();
    await idle.getByText('send a message with a shell code block').waitFor();
    await idle.locator('.pill', { hasText: 'No model' }).waitFor();
    expect(await idle.getByText(/\bDone\b/).count()).toBe(0);
    const { page } = window;
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await violationsIn(page)).toEqual([]);
      await window.picture(`results of runs ${colorScheme}`);
    }
    await page.setViewportSize({ width: 360, height: 740 });
    await window.picture('results of runs on a phone');
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('has the result of the next message instead', async () => {
    const { page } = window;
    await page.goto(`${up.url}/c/${failed}`);
    await page.getByText('The last command failed: exit code 3.').waitFor();
    await window.picture('a run whose last command failed');
    const { status } = await up.call('POST', `/api/v1/app-conversations/${failed}/send-message`, {
      content: [{ type: 'text', text: shell('Mend it', 'echo mended') }],
      run: true,
    });
    expect(status).toBe(200);
    await page
      .getByText('All blocks succeeded. 1. `echo mended`', { exact: false })
      .first()
      .waitFor();
    await page.goto(`${up.url}/`);
    await row('Finished', 'Break it').getByText('`echo mended`: exit code 0').waitFor();
    expect(await row('Needs you', 'Break it').count()).toBe(0);
  });
});
