import { z } from 'zod';
import { count, described, optional, ownerName, text, timestamp } from './schema.ts';

/** Maximum pushes that the status of a conversation lists. */
export const maxPushes = 20;
const maxPatterns = 20;
const maxOverrides = 50;
const maxReadable = 20;

/** A pattern of branch names, in which `*` matches any characters. */
const branchPattern = () =>
  z
    .string()
    .min(1)
    .max(255)
    .regex(/^[^\s~^:?[\\-][^\s~^:?[\\]*$/);

/** A repository name such as `owner/name`, or a longer path such as `group/subgroup/name`. */
const repositoryName = () =>
  z
    .string()
    .max(255)
    .regex(/^[A-Za-z0-9_.][A-Za-z0-9_.-]*(\/[A-Za-z0-9_.][A-Za-z0-9_.-]*)+$/);

const pushFields = {
  enabled: z.boolean(),
  branches: z.array(branchPattern()).max(maxPatterns),
  maxMebibytes: z.int().min(1).max(10_240),
  maxPerHour: z.int().min(1).max(10_000),
};

const descriptions = {
  enabled: 'Whether sandboxes may push at all.',
  branches:
    'Patterns of the branches that sandboxes may push; * matches any characters. The default branch of a repository, tags, deletions and forced updates are never pushed.',
  maxMebibytes: 'Maximum size of one push in MiB, as git sends it.',
  maxPerHour: 'Maximum number of pushes of one conversation in an hour.',
} as const;

const pushSchema = z.object({
  enabled: described(pushFields.enabled.default(true), descriptions.enabled),
  branches: described(
    pushFields.branches.default(['openhands/*', 'agent/*']),
    descriptions.branches,
  ),
  maxMebibytes: described(pushFields.maxMebibytes.default(512), descriptions.maxMebibytes),
  maxPerHour: described(pushFields.maxPerHour.default(60), descriptions.maxPerHour),
});

const pullRequestFields = { enabled: z.boolean(), maxPerHour: z.int().min(1).max(1_000) };

const pullRequestDescriptions = {
  enabled:
    'Whether owners and their agents may open pull requests from branches that they may push, and comment on them, through the gateway. Nothing merges, closes or approves them.',
  maxPerHour: 'Maximum number of pull requests and comments of one conversation in an hour.',
} as const;

const pullRequestsSchema = z.object({
  enabled: described(pullRequestFields.enabled.default(true), pullRequestDescriptions.enabled),
  maxPerHour: described(
    pullRequestFields.maxPerHour.default(30),
    pullRequestDescriptions.maxPerHour,
  ),
});

export const gitSettingsSchema = z.object({
  push: described(pushSchema, 'What sandboxes may push through the gateway.').prefault({}),
  pullRequests: described(
    pullRequestsSchema,
    'Pull requests that the gateway opens on the git host.',
  ).prefault({}),
  coAuthor: optional(
    z
      .string()
      .max(256)
      .regex(/^[^<>\r\n]+ <[^<>\s]+>$/),
    'Co-author, as NAME <EMAIL>, of the commits whose author is the owner. Absent: openhands for agents of the kind openhands, none for others.',
  ),
  overrides: optional(
    z
      .array(
        z.object({
          owner: optional(ownerName(), 'Owner of the sandboxes. Absent: every owner.'),
          repository: optional(
            repositoryName(),
            'Repository, as a conversation names it or as its host does after a renaming; upper and lower case and the ending .git do not count. Absent: every repository.',
          ),
          push: optional(
            z.object({
              enabled: optional(pushFields.enabled, descriptions.enabled),
              branches: optional(pushFields.branches, descriptions.branches),
              maxMebibytes: optional(pushFields.maxMebibytes, descriptions.maxMebibytes),
              maxPerHour: optional(pushFields.maxPerHour, descriptions.maxPerHour),
            }),
            'Fields that replace those of git.push.',
          ),
          pullRequests: optional(
            z.object({
              enabled: optional(pullRequestFields.enabled, pullRequestDescriptions.enabled),
              maxPerHour: optional(
                pullRequestFields.maxPerHour,
                pullRequestDescriptions.maxPerHour,
              ),
            }),
            'Fields that replace those of git.pullRequests.',
          ),
        }),
      )
      .max(maxOverrides),
    'Exceptions from git.push and git.pullRequests. The first one that fits an owner and a repository counts.',
  ),
  readable: optional(
    z.array(repositoryName()).max(maxReadable),
    "Repositories that sandboxes may read with the credential of their owner, beside those of their conversations: private submodules, for instance. They are on the host of the conversation's repository.",
  ),
});

export type GitSettings = z.output<typeof gitSettingsSchema>;
export type PushPolicy = GitSettings['push'];
export type PullRequestPolicy = GitSettings['pullRequests'];

/** The permissions of an owner for a repository at the gateway. */
export interface GitPolicy {
  readonly push: PushPolicy;
  readonly pullRequests: PullRequestPolicy;
}

const isGiven = ([, value]: readonly [string, unknown]): boolean => value !== undefined;

/** A copy of `base` with the fields that an override has. */
const replaced = <T extends object>(base: T, override: object = {}): T => ({
  ...base,
  ...Object.fromEntries(Object.entries(override).filter(isGiven)),
});

/** The name of a repository for comparisons: git hosts ignore case and the ending `.git`. */
export const forgeName = (repository: string): string => withoutGitEnding(repository).toLowerCase();

export const withoutGitEnding = (repository: string): string =>
  repository.replace(/(?:\.git)+$/i, '');

/**
 * The policy for an owner and a repository. Names are compared by `forgeName`. Absent fields of a
 * stored template have their defaults.
 */
export function gitPolicyOf(
  settings: Partial<GitSettings> | undefined,
  { owner, repository }: { readonly owner: string; readonly repository: string },
): GitPolicy {
  const { push, pullRequests, overrides = [] } = { ...gitSettingsSchema.parse({}), ...settings };
  const name = forgeName(repository);
  const override = overrides.find(
    (each) => (each.owner ?? owner) === owner && forgeName(each.repository ?? repository) === name,
  );
  return {
    push: replaced(push, override?.push),
    pullRequests: replaced(pullRequests, override?.pullRequests),
  };
}

/** Unknown: a gateway has begun to forward the push, and does not know the outcome. */
export const pushOutcomes = ['Unknown', 'Accepted', 'Rejected'] as const;

/** Field `status.pushes` of a Conversation. */
export const pushesSchema = z
  .array(
    z.object({
      id: described(
        text(64),
        'Identifies the push; a push of several references has one entry each.',
      ),
      ref: described(text(512), 'Full name of the reference, like refs/heads/agent/fix.'),
      oldId: described(text(64), 'Commit before the push; zeros for a new branch.'),
      newId: described(text(64), 'Commit after the push.'),
      time: described(timestamp(), 'Time at which the gateway passed the push on.'),
      outcome: described(
        z.enum(pushOutcomes),
        'Accepted or Rejected by the git host; Unknown until the gateway has learned it.',
      ),
      bytes: optional(count(), 'Size of the push in bytes. Absent while the outcome is Unknown.'),
    }),
  )
  .max(maxPushes);

export type PushRecord = z.output<typeof pushesSchema>[number];
