import type { SettingsStore } from '../lookup/settings-store.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { GitDirectory } from '../git/directory.ts';
import type { Sealing } from '../../agent/sealing.ts';
import { type ConversationSpec } from '../../resources/conversation.ts';
import { isModelAllowed } from '../../resources/agent-settings.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { moving, notFound } from '../errors/common-problems.ts';
import { comesBackFromError, refuseUnusable } from '../sandboxes/resume.ts';
import { messageOf } from '../presenters/message.ts';
import { specFieldsOf, type StartRequest } from '../presenters/start-fields.ts';

export interface ReferenceNeeds {
  readonly lookup: ResourceLookup;
  readonly settings: SettingsStore;
  readonly sealing: Sealing;
  readonly git: GitDirectory;
  readonly templateName: string;
}

/** The existing objects of the owner that a start request names. */
export interface References {
  readonly templateName: string;
  readonly sandbox: Sandbox | undefined;
  /** Whether the sandbox is paused, so that the start has to resume it. */
  readonly paused: boolean;
  /** Whether the sandbox is in ERROR, and a resume can restart it. */
  readonly failed: boolean;
  readonly parent: string | undefined;
}

/** The object with this id; undefined without an id. Throws 404 if no object has the id. */
async function named<T>(
  id: string | undefined,
  what: Parameters<typeof notFound>[0],
  find: (id: string) => Promise<T | undefined>,
): Promise<T | undefined> {
  const found = id === undefined ? undefined : await find(id);
  if (id !== undefined && found === undefined) throw notFound(what);
  return found;
}

export async function referencesOf(
  { lookup, templateName }: ReferenceNeeds,
  owner: string,
  request: StartRequest,
): Promise<References> {
  const template = await named(request.sandbox_spec_id, 'sandbox spec', (id) =>
    lookup.template(id),
  );
  const parent = await named(request.parent_conversation_id, 'parent conversation', (id) =>
    lookup.conversation(owner, id),
  );
  const sandbox = await named(request.sandbox_id, 'sandbox', (id) => lookup.sandbox(owner, id));
  if (sandbox?.spec.handover !== undefined) throw moving();
  const phase = sandbox && viewOfSandbox(sandbox).phase;
  const failed = sandbox !== undefined && comesBackFromError(lookup, sandbox);
  if (phase !== undefined)
    refuseUnusable(phase, { comesBack: failed, use: ' and takes no conversation' });
  return {
    templateName: sandbox?.spec.templateName ?? template?.metadata.name ?? templateName,
    sandbox,
    paused: phase === 'PAUSED',
    failed,
    parent: parent?.metadata.name,
  };
}

type StartSecrets = NonNullable<ConversationSpec['secrets']>;

export function specOf(
  owner: string,
  request: StartRequest,
  { templateName, sandbox, parent }: References,
  { model, secrets }: { readonly model: string | undefined; readonly secrets: StartSecrets },
): ConversationSpec {
  const { initial_message: message, max_cost: maxCost } = request;
  const { repository, ...fields } = specFieldsOf({
    ...request,
    title: request.title || undefined,
    sandbox_id: sandbox?.metadata.name,
    parent_conversation_id: parent,
    llm_model: model,
  });
  return {
    owner,
    ...fields,
    templateName,
    // A branch without a repository is ignored.
    ...(repository?.name === undefined ? {} : { repository }),
    ...(message === null ? {} : { initialMessage: messageOf(message) }),
    ...(secrets.length > 0 ? { secrets } : {}),
    ...(maxCost === undefined ? {} : { budget: { amount: maxCost, currency: 'USD' } }),
  };
}

/** Throws 422 if the template forbids the model. If there is no template, the start fails later. */
export function refuseModel(
  model: string,
  template: SandboxTemplate | undefined,
  { path, templateName }: { readonly path: string; readonly templateName: string },
): void {
  if (template === undefined || isModelAllowed(model, template.spec.agent)) return;
  throw new ProblemError(
    'model-not-allowed',
    `The sandbox spec ${templateName} does not allow the model ${model}.`,
    { errors: [{ path, message: 'must be a model that the sandbox spec allows' }] },
  );
}

/**
 * The model of the request, or else that of the owner's settings if the template allows it. If
 * undefined, the agent uses the model of the template.
 */
export async function modelFor(
  { lookup, settings }: ReferenceNeeds,
  owner: string,
  { llm_model: wanted }: StartRequest,
  { templateName }: References,
): Promise<string | undefined> {
  const model = wanted ?? settings.of(owner).model;
  if (model === undefined) return undefined;
  const template = await lookup.template(templateName);
  if (wanted !== undefined) refuseModel(wanted, template, { path: 'body.llm_model', templateName });
  const isUsable = template === undefined || isModelAllowed(model, template.spec.agent);
  return wanted ?? (isUsable ? model : undefined);
}

/** The secrets of a start, encrypted for the conversation of this name. */
export const sealedSecrets = (
  { sealing }: ReferenceNeeds,
  owner: string,
  conversation: string,
  { secrets = {} }: StartRequest,
): StartSecrets =>
  Object.entries(secrets).map(([name, value]) => ({
    name,
    sealed: sealing.seal(value, { scope: 'start', owner, conversation, name }),
  }));

/**
 * Throws 403 for an unknown repository, and 422 for an unknown branch. If the git host does not
 * answer, the start continues, and the clone may fail.
 */
export async function refuseUnknownRepository(
  { git }: ReferenceNeeds,
  owner: string,
  request: StartRequest,
): Promise<void> {
  const { selected_repository: repository, selected_branch: branch } = request;
  const check =
    repository === undefined
      ? 'unknown'
      : await git.access({ owner, provider: request.git_provider, repository, branch });
  if (check === 'denied')
    throw new ProblemError(
      'repository-access-denied',
      `There is no repository ${repository}, or you have no access to it.`,
    );
  if (check === 'branch-not-found')
    throw new ProblemError(
      'branch-not-found',
      `The repository ${repository} has no branch or tag ${branch}.`,
      {
        errors: [
          { path: 'body.selected_branch', message: 'must be a branch or tag of the repository' },
        ],
      },
    );
}
