import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { Window } from './support/browser.ts';
import { complaints } from './support/exceptions.ts';
import { steps } from './support/steps.ts';
import { serveFolder, webUiFolder, type StaticServer } from './support/web-ui.ts';

let ui: StaticServer;
let git: GitServer;
let up: Installation;
let window: Window;
let id: string;
let sandbox: string;

const repository = 'acme/shop';
const titleAtFirst = 'List the content of the shop:';
const titleLater = 'What the shop has';
const firstMessage = [titleAtFirst, '```sh', 'sleep 4; cat README.md; echo $((6*7)) things', '```'];
const followUp = [
  'And now slowly:',
  '```sh',
  'echo begun; sleep 300',
  '```',
  '```sh',
  'echo continued with $((40+2))',
  '```',
];

beforeAll(async () => {
  ui = await serveFolder(webUiFolder());
  git = await GitServer.start({
    repositories: { [repository]: { files: { 'README.md': 'Apples and pears.\n' } } },
  });
  up = await Installation.start({
    env: { CORS_ORIGINS: ui.url, GIT_HOSTS: JSON.stringify({ github: git.url }) },
  });
  window = await Window.open();
});
afterAll(async () => {
  await window.close();
  await up.stop();
  await git.stop();
  ui.close();
});

const step = steps(() => window);
const part = (name: string) => window.page.getByTestId(name);
const card = () => part('conversation-card');
const chat = () => part('chat-interface');
/** The foot of the side bar has a green dot, and says so to those who don't see it. */
const connected = async () => {
  await part('backend-status-dot')
    .and(window.page.getByLabel('Connected', { exact: true }))
    .waitFor();
  expect(await part('backend-selector').locator('input').inputValue()).toBe('Our service');
};
const k = async (args: string): Promise<string> =>
  (await kubectl(up.kubeconfig, args.split(' '))).stdout;

async function say(lines: readonly string[]): Promise<void> {
  await part('chat-input').click();
  for (const [index, line] of lines.entries()) {
    if (index > 0) await window.page.keyboard.press('Shift+Enter');
    await window.page.keyboard.type(line);
  }
  await part('submit-button').click();
}

/**
 * Opens the web UI, again if nothing has come after some seconds: Chromium drops requests of
 * scripts when the machine's interfaces change, and a page without its scripts stays empty.
 */
async function openFirst(): Promise<void> {
  for (let tries = 1; ; tries++) {
    await window.page.goto(ui.url);
    const hasCome = await part('onboarding-backend-name')
      .waitFor({ timeout: 30_000 })
      .then(() => true)
      .catch(() => false);
    if (hasCome) return;
    const faults = window.faults();
    if (tries === 3) throw new Error(`the web UI stays empty: ${faults.join(' ')}`);
  }
}

async function openMenu(): Promise<void> {
  await card().hover();
  await card().getByTestId('ellipsis-button').click();
}

describe('the official web UI, from another origin', () => {
  step('asks for the service and a key when it is first opened', async () => {
    await openFirst();
    await part('onboarding-backend-name').fill('Our service');
    await part('onboarding-backend-host').fill(up.url);
    await part('onboarding-backend-kind-option-cloud').click();
    await part('onboarding-backend-api-key').pressSequentially(up.key);
  });

  step('lists the conversations of the key: none yet', async () => {
    await part('onboarding-backend-next').click();
    await window.page.getByText('Choose your agent').waitFor();
    await part('onboarding-skip').click();
    await part('conversation-panel').getByText('No conversations found').waitFor();
    await connected();
    expect((await up.call('GET', '/api/v1/app-conversations/count')).body).toBe(0);
  });

  step('finds a repository by its name', async () => {
    await part('open-repository-button').click();
    await part('git-repo-dropdown').fill(repository);
    await part('git-repo-dropdown-menu').getByText(repository).click();
    await part('repo-launch-button').click();
    await part('home-chat-launcher').getByText(repository).waitFor();
  });

  step('starts a conversation with it and shows that it has begun', async () => {
    await say(firstMessage);
    await window.page.waitForURL(/\/conversations\/task-[0-9a-f]+/);
    await chat().getByText(titleAtFirst).waitFor();
    await card().getByText(titleAtFirst, { exact: true }).waitFor();
  });

  step('opens the conversation once it is READY', async () => {
    await window.page.waitForURL(/\/conversations\/[0-9a-f]{32}\b/);
    id = /\/conversations\/([0-9a-f]{32})/.exec(window.page.url())?.[1] ?? '';
    await part('conversation-name-title').getByText(titleAtFirst, { exact: true }).waitFor();
    const record = await up.conversation(id);
    sandbox = record.sandbox_id ?? '';
    expect(record).toMatchObject({
      selected_repository: repository,
      selected_branch: 'main',
      trigger: 'gui',
    });
    expect(
      await k(`get conversation ${id} -o jsonpath={.status.start.status},{.spec.repository.name}`),
    ).toBe(`READY,${repository}`);
  });

  step('follows the events over its WebSocket', async () => {
    const socket = await eventually('an open WebSocket', () =>
      window.sockets.findLast(({ open }) => open),
    );
    expect(new URL(socket.url).pathname).toBe(`/sockets/events/${id}`);
    // The first frame, and never a URL, a header or a cookie.
    expect(JSON.parse(socket.sent[0] ?? '')).toMatchObject({ type: 'auth' });
    expect(socket.url).not.toContain('key');
    await chat().getByText('All blocks succeeded.').waitFor();
    await eventually('its end over the socket', () =>
      socket.received.some((frame) => frame.includes('All blocks succeeded.')),
    );
    await chat().getByTestId('generic-event-message-title').getByRole('button').click();
    await chat().getByText('Apples and pears.').waitFor();
    await chat().getByText('42 things').waitFor();
    await up.reaches(id, { execution_status: 'finished' });
  });

  step('sends another message over the socket', async () => {
    await say(followUp);
    await chat().getByText('Code block 1 of 2.').waitFor();
    await part('stop-button').waitFor();
    expect(window.sockets.findLast(({ open }) => open)?.sent.at(-1)).toContain('And now slowly:');
    await up.reaches(id, { execution_status: 'running' });
    expect(await k(`get conversation ${id} -o jsonpath={.status.executionStatus}`)).toBe('running');
  });

  step('stops the agent, which stays stopped', async () => {
    await part('stop-button').click();
    await part('play-button').waitFor();
    await part('interactive-chat-box').getByText('Stopped').waitFor();
    await up.reaches(id, { execution_status: 'paused', sandbox_status: 'RUNNING' });
    expect(await k(`get conversation ${id} -o jsonpath={.status.executionStatus}`)).toBe('paused');
    expect(await chat().getByText('continued with 42').count()).toBe(0);
  });

  step('lets it continue', async () => {
    await part('play-button').click();
    await chat().getByText('All blocks that were not interrupted succeeded.').waitFor();
    await chat().getByText('Code block 2 of 2.').waitFor();
    await up.reaches(id, { execution_status: 'finished' });
    const { body } = await up.call(
      'GET',
      `/api/v1/conversation/${id}/events/search?kind=ObservationEvent`,
    );
    expect(JSON.stringify(body)).toContain('continued with 42');
  });

  step('renames the conversation', async () => {
    await openMenu();
    await part('edit-button').click();
    const input = card().locator('input');
    await input.fill(titleLater);
    await input.press('Enter');
    await card().getByText(titleLater).waitFor();
    await part('conversation-name-title').getByText(titleLater).waitFor();
    expect(await up.conversation(id)).toMatchObject({ title: titleLater });
    expect(await k(`get conversation ${id} -o jsonpath={.spec.title}`)).toBe(titleLater);
  });

  step('opens it from the list in a new page, with all that was said', async () => {
    await window.page.goto(ui.url);
    await connected();
    await card().getByText(titleLater).click();
    await window.page.waitForURL(new RegExp(`/conversations/${id}`));
    await chat().getByText('All blocks that were not interrupted succeeded.').waitFor();
    await chat().getByText('All blocks succeeded.').waitFor();
    await card().getByTestId('conversation-status-check').waitFor();
  });

  step('deletes the conversation with all that belongs to it', async () => {
    await openMenu();
    await part('delete-button').click();
    await window.page.getByRole('button', { name: 'Confirm Delete' }).click();
    await part('conversation-panel').getByText('No conversations found').waitFor();
    expect((await up.call('GET', `/api/v1/app-conversations?ids=${id}`)).body).toEqual([]);
    await eventually('everything to be gone', async () => {
      const left = await k('get conversations,sandboxes,pods,pvc -o name');
      return !left.includes(id) && !left.includes(sandbox) && up.agentProcesses().length === 0;
    });
  });

  it('has shown no message that something is wrong', () => {
    expect(complaints(window.announced)).toEqual([]);
  });
});
