import { CommandError } from '../commands/terminal.ts';
import { deleteOwned, storedWithSandbox } from '../gateway/lookup/stored.ts';
import { titleOf } from '../gateway/presenters/conversation.ts';
import { refuseOverQuota } from '../gateway/quota/quota.ts';
import {
  comesBackFromError,
  refuseUnusable,
  requestResume,
  requestRun,
} from '../gateway/sandboxes/resume.ts';
import { conversations } from '../resources/conversation.ts';
import { sandboxes, type Sandbox } from '../resources/sandbox.ts';
import { viewOfSandbox } from '../status/sandbox-phase.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { nameOf } from './list.ts';
import { named } from './names.ts';
import { factsOf, readScene, resumeNeeds, type Scene } from './scene.ts';
import { confirmed, print } from './terminal.ts';

/** The sandbox of a conversation from the cluster. Throws where there is none. */
async function sandboxOf(scene: Scene, text: string) {
  const known = named(scene, text);
  const { conversation, sandbox } = await storedWithSandbox(scene.client, known);
  if (sandbox === undefined)
    throw new CommandError(
      `The conversation ${conversation.metadata.name} has no sandbox: kubectl conversations why ${conversation.metadata.name}`,
    );
  return { known, conversation, sandbox };
}

/** The others that are in the sandbox and are paused or resumed with it. */
const withOthers = (scene: Scene, sandbox: Sandbox, name: string): string => {
  const others = scene.lookup
    .conversationsNaming(sandbox.metadata.name)
    .filter(({ metadata }) => metadata.name !== name);
  return others.length === 0
    ? ''
    : `, with ${others.map((each) => `“${titleOf(each)}”`).join(', ')}`;
};

export const pause = (text: string, options: PluginOptions): Promise<void> =>
  withCluster(options, async ({ client, namespace }) => {
    const scene = await readScene(client, namespace);
    const { conversation, sandbox } = await sandboxOf(scene, text);
    refuseUnusable(viewOfSandbox(sandbox).phase);
    const { name, uid } = sandbox.metadata;
    // The UID protects a newer sandbox of the same name.
    await client.mergePatch(sandboxes, namespace, name, {
      metadata: { uid },
      spec: { replicas: 0 },
    });
    const own = conversation.metadata.name;
    print(`${own} is being paused${withOthers(scene, sandbox, own)}. Its files stay.`);
  });

export const resume = (text: string, options: PluginOptions): Promise<void> =>
  withCluster(options, async ({ client, namespace }) => {
    const scene = await readScene(client, namespace);
    const { known, conversation, sandbox } = await sandboxOf(scene, text);
    const { phase } = viewOfSandbox(sandbox);
    const isFailed = comesBackFromError(scene.lookup, sandbox);
    refuseUnusable(phase, { comesBack: isFailed });
    const { owner } = conversation.spec;
    if (isFailed || phase === 'PAUSED') refuseOverQuota(scene.lookup, owner);
    // As on the page: a run that was stopped continues.
    const isStopped = factsOf(scene, known).conversation?.execution_status === 'paused';
    await (isStopped ? requestRun : requestResume)(resumeNeeds(client), sandbox);
    const own = conversation.metadata.name;
    print(`${own} is being resumed${withOthers(scene, sandbox, own)}.`);
  });

export const remove = (
  text: string,
  options: PluginOptions & { readonly yes?: boolean },
): Promise<void> =>
  withCluster(options, async ({ client, namespace }) => {
    const scene = await readScene(client, namespace);
    const known = named(scene, text);
    const { name } = known.metadata;
    const sandbox = scene.lookup.sandboxIn(known);
    const isShared = sandbox !== undefined && withOthers(scene, sandbox, name) !== '';
    const loses =
      sandbox === undefined
        ? ''
        : isShared
          ? ' Its sandbox stays, because others are in it.'
          : ' Its sandbox and the files in it are deleted too.';
    print(`“${titleOf(known)}” (${name}) of ${known.spec.owner}.${loses}`);
    if (!(await confirmed('Delete it?', options.yes)))
      throw new CommandError('Nothing was deleted');
    // There is no cache that would have to show the end.
    const feed = { settled: () => Promise.resolve(undefined) };
    await deleteOwned(client, conversations, 'conversation', known, feed);
    print(options.output === 'name' ? nameOf(known) : `${name} is deleted.`);
  });
