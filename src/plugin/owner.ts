import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { z } from 'zod';
import { kubeconfigFiles } from '@conversation-operator/kube/kubeconfig';
import { group } from '../resources/group.ts';
import { ownerName } from '../resources/schema.ts';
import type { PluginOptions } from './cluster.ts';
import { loginOf } from './service.ts';
import { UsageError } from './terminal.ts';

export interface ChosenOwner {
  readonly owner: string;
  /** Where the owner comes from, for people; undefined for the option. */
  readonly from: string | undefined;
}

const kubeconfigSchema = z.object({
  contexts: z
    .array(
      z.object({
        name: z.string(),
        context: z.object({
          extensions: z
            .array(z.object({ name: z.string(), extension: z.unknown() }))
            .optional()
            .catch(undefined),
        }),
      }),
    )
    .catch([]),
});
const extensionSchema = z.object({ owner: z.string() });

/** The owner that an extension of a context of the kubeconfig names; undefined without one. */
export function ownerInKubeconfig(text: string, context: string): string | undefined {
  const config = kubeconfigSchema.safeParse(parse(text));
  const found = config.data?.contexts.find(({ name }) => name === context);
  const own = found?.context.extensions?.find(({ name }) => name === group);
  return extensionSchema.safeParse(own?.extension).data?.owner;
}

/** The owner of --owner, else of the context's login, else of the context; undefined without any. */
export async function chosenOwner(
  { owner, kubeconfig }: PluginOptions,
  context: string,
): Promise<ChosenOwner | undefined> {
  if (owner !== undefined) {
    if (!ownerName().safeParse(owner).success)
      throw new UsageError(
        `--owner: '${owner}' must have 1 to 128 letters, digits or -_.@+: and begin and end with a letter or digit`,
      );
    return { owner, from: undefined };
  }
  const login = await loginOf(context);
  if (login !== undefined) return { owner: login.owner, from: `your login at ${login.server}` };
  for (const file of kubeconfigFiles(kubeconfig, process.env)) {
    const named = ownerInKubeconfig(await readFile(file, 'utf8'), context);
    if (named !== undefined) return { owner: named, from: `the context ${context}` };
  }
  return undefined;
}

export async function neededOwner(options: PluginOptions, context: string): Promise<ChosenOwner> {
  const chosen = await chosenOwner(options, context);
  if (chosen === undefined)
    throw new UsageError(
      '--owner is needed: neither a login (kubectl conversations login) nor the context of the kubeconfig names one',
    );
  return chosen;
}
