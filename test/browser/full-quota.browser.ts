import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { Window } from './support/browser.ts';
import { complaints } from './support/exceptions.ts';
import { signIn } from './support/sign-in.ts';
import { steps } from './support/steps.ts';
import { serveFolder, webUiFolder, type StaticServer } from './support/web-ui.ts';

let ui: StaticServer;
let up: Installation;
let window: Window;
/** Folder in which a file ends the run of the same name. */
let ends: string;
/** Ids of conversations: two that are paused, and two whose agents work. */
let apples: string, pears: string, digging: string, sowing: string;
/** Containers of the agents that work, from before the first conversation was opened. */
let containers: readonly string[];

const titles = { apples: 'Count the apples:', pears: 'Count the pears:' };
const counting = (title: string, answer: string) => `${title}\n\`\`\`sh\necho ${answer}\n\`\`\``;
const endOf = (run: string) => join(ends, run);
const lasting = (run: string) =>
  `Work:\n\`\`\`sh\nuntil [ -e '${endOf(run)}' ]; do sleep 0.2; done\necho ${run} is over\n\`\`\``;

const step = steps(() => window);
const part = (name: string) => window.page.getByTestId(name);
const starting = () => part('chat-interface').getByText('Starting', { exact: true });
const sandboxOf = (id: string): string => `sbx-${id}`;

async function k(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await kubectl(up.kubeconfig, args);
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

async function started(text: string): Promise<string> {
  const task = await up.over((await up.start(text)).id);
  return z.string().parse(task.app_conversation_id);
}

/** An agent's present container, which a pause would have ended, and how many it has had. */
const containerOf = (id: string): Promise<string> =>
  k('get', 'sandbox', sandboxOf(id), '-o', 'jsonpath={.status.agentEpoch} {.status.containerID}');

async function expectToWork(...ids: string[]): Promise<void> {
  for (const id of ids)
    expect(await up.conversation(id)).toMatchObject({
      sandbox_status: 'RUNNING',
      execution_status: 'running',
    });
}

/** Opens a paused conversation, which resumes its sandbox, and waits for the quota's decision. */
async function open(id: string, title: string): Promise<void> {
  const resumed = window.page.waitForResponse((response) =>
    response.url().endsWith(`/api/v1/sandboxes/${sandboxOf(id)}/resume`),
  );
  await part('conversation-card').getByText(title).click();
  await window.page.waitForURL(new RegExp(`/conversations/${id}`));
  expect((await resumed).status()).toBe(200);
  await eventually(`a decision on ${title}`, async () => {
    const { sandbox_status: status, sandbox_status_reason: reason } = await up.conversation(id);
    return status === 'RUNNING' || (status === 'STARTING' && reason === 'waiting-for-idle-sandbox');
  });
}

const expectToWait = async (id: string): Promise<void> =>
  expect(await up.conversation(id)).toMatchObject({
    sandbox_status: 'STARTING',
    sandbox_status_reason: 'waiting-for-idle-sandbox',
  });

/** Waits until the page shows this conversation, with a sandbox that does not run yet. */
async function showsThatItStarts(title: string): Promise<void> {
  await part('conversation-name-title').getByText(title, { exact: true }).waitFor();
  await starting().waitFor();
}

beforeAll(async () => {
  ends = mkdtempSync(join(tmpdir(), 'full-quota-'));
  ui = await serveFolder(webUiFolder());
  up = await Installation.start({ env: { CORS_ORIGINS: ui.url } });
  window = await Window.open({ firstPicture: 41 });
  await signIn(window, up);
  await k(
    'patch',
    'cq',
    'default',
    '--type',
    'merge',
    '-p',
    '{"spec":{"limit":2,"onExceeded":"PauseOldest"}}',
  );
  apples = await started(counting(titles.apples, '7 apples'));
  pears = await started(counting(titles.pears, '8 pears'));
  for (const id of [apples, pears]) await up.reaches(id, { execution_status: 'finished' });
  expect((await up.call('POST', `/api/v1/sandboxes/${sandboxOf(apples)}/pause`)).status).toBe(200);
  await up.reaches(apples, { sandbox_status: 'PAUSED', sandbox_status_reason: 'user' });
  digging = await started(lasting('digging'));
  sowing = await started(lasting('sowing'));
  await up.reaches(pears, { sandbox_status: 'PAUSED', sandbox_status_reason: 'quota' });
  for (const id of [digging, sowing]) await up.reaches(id, { execution_status: 'running' });
  containers = await Promise.all([containerOf(digging), containerOf(sowing)]);
});
afterAll(async () => {
  await window.close();
  await up.stop();
  ui.close();
  rmSync(ends, { recursive: true, force: true });
});

describe('the official web UI, while a quota is full of agents that work', () => {
  step(
    'opens a conversation that its owner has paused, which pauses no agent that works',
    async () => {
      await window.page.goto(ui.url);
      await open(apples, titles.apples);
      expect(await Promise.all([containerOf(digging), containerOf(sowing)])).toEqual(containers);
      await expectToWork(digging, sowing);
      await expectToWait(apples);
      await showsThatItStarts(titles.apples);
    },
  );

  step('opens one that the quota has paused, which pauses none either', async () => {
    await open(pears, titles.pears);
    expect(await Promise.all([containerOf(digging), containerOf(sowing)])).toEqual(containers);
    await expectToWork(digging, sowing);
    for (const id of [apples, pears]) await expectToWait(id);
    await showsThatItStarts(titles.pears);
  });

  step('shows the history of the opened one once a run is over, whose place it takes', async () => {
    writeFileSync(endOf('digging'), '');
    await up.reaches(digging, { sandbox_status: 'PAUSED', sandbox_status_reason: 'quota' });
    await up.reaches(pears, { sandbox_status: 'RUNNING', execution_status: 'finished' });
    await part('chat-interface').getByText('All blocks succeeded.').waitFor();
    await part('chat-interface').getByText('echo 8 pears').first().waitFor();
    await starting().waitFor({ state: 'detached' });
    await eventually('an open WebSocket', () =>
      window.sockets.some(({ open, url }) => open && url.includes(pears)),
    );
  });

  step('has let the other run come to its end in the container in which it began', async () => {
    await expectToWork(sowing);
    writeFileSync(endOf('sowing'), '');
    await up.reaches(sowing, { execution_status: 'finished' });
    expect(await containerOf(sowing)).toBe(containers[1]);
    const paused = await k(
      'get',
      'events',
      '--field-selector',
      `involvedObject.name=${sowing},reason=PausedByQuota`,
      '-o',
      'name',
    );
    expect(paused).toBe('');
  });

  it('has announced no fault', () => {
    expect(complaints(window.announced)).toEqual([]);
  });
});
