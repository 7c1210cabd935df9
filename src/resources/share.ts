import { z } from 'zod';
import type { CachedConversation } from './cached-conversation.ts';
import {
  column,
  resourceOf,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import {
  count,
  described,
  immutable,
  objectName,
  optional,
  ownerName,
  text,
  timestamp,
  validations,
} from './schema.ts';

/** Maximum characters of the name of a group: an issuer's name, a colon, and a value of a rule. */
export const maxGroupLength = 533;

export const shareSubjectKinds = ['Link', 'User', 'Group'] as const;

export const shareSpecSchema = z
  .object({
    owner: described(
      ownerName(),
      'Owner of the conversation. Under another owner the conversation is not shared any more.',
    ),
    conversation: described(
      z.object({
        name: described(objectName(), 'Name of the Conversation.'),
        uid: described(
          z.string().min(1).max(64),
          'UID of the Conversation. One that is created again under the name is not shared.',
        ),
        handovers: optional(
          count(),
          'Value of spec.handovers of the Conversation. After a further change of its owner the share opens nothing. Absent: 0.',
        ),
      }),
      'Conversation that is shared.',
    ),
    subject: described(
      z
        .object({
          kind: described(
            z.enum(shareSubjectKinds),
            'Link: whoever has the link may read. User, Group: the link opens for this person or group alone, who has to be signed in.',
          ),
          name: optional(
            z.string().min(1).max(maxGroupLength),
            'Owner as whom the person is signed in, or group as ISSUER:VALUE. Absent: of a Link.',
          ),
        })
        .meta(
          validations({
            rule: "has(self.name) == (self.kind != 'Link')",
            message: 'User and Group need a name, and Link has none',
            fieldPath: '.name',
          }),
        ),
      'Who may read the conversation.',
    ),
    sha256: described(
      z.string().regex(/^[0-9a-f]{64}$/),
      'SHA-256 of the token in the link, in hex. The token itself is stored nowhere. The name of the object follows from it; an object with another name counts for nothing.',
    ),
    expirationTime: optional(timestamp(), 'Time from which the link opens nothing. Absent: never.'),
    createdBy: described(text(253), 'Name of the ApiKey or session that created the share.'),
    issuedBy: optional(
      z.object({
        name: described(objectName(), 'Name of the ApiKey.'),
        uid: described(z.string().min(1).max(64), 'UID of the ApiKey.'),
      }),
      'API key on which the share depends: it opens nothing once that key is invalid. Absent: created in the session of a person whom an identity provider has signed in.',
    ),
  })
  .meta(
    validations(
      ...immutable({
        required: ['owner', 'conversation', 'subject', 'sha256', 'createdBy'],
        optional: ['issuedBy'],
      }),
    ),
  );

export const shareStatusSchema = z.object({});

export type ShareSpec = z.output<typeof shareSpecSchema>;
export type Share = CustomObject<ShareSpec, z.output<typeof shareStatusSchema>>;

export const shareDefinition: CustomResourceDefinition = {
  kind: 'Share',
  plural: 'shares',
  shortNames: ['sh'],
  description: 'Read access of others to one conversation. The gateway writes it.',
  spec: shareSpecSchema,
  status: shareStatusSchema,
  printerColumns: [
    column('Owner', '.spec.owner', 'Owner of the conversation.'),
    column('Conversation', '.spec.conversation.name', 'Conversation that is shared.'),
    column('Subject', '.spec.subject.kind', 'Link, User or Group.'),
    column('Name', '.spec.subject.name', 'The person or group.'),
    column('Expires', '.spec.expirationTime', 'Time from which the link opens nothing.'),
    wideColumn('Created-By', '.spec.createdBy', 'Key that created the share.'),
  ],
  selectableFields: ['.spec.owner'],
};

export const shares = resourceOf<Share>(shareDefinition);

/** Whether the conversation is the shared one, and has not changed its owner since. */
export const isShareOf = (
  { spec: { owner, conversation: shared } }: Share,
  { metadata, spec }: Pick<CachedConversation, 'metadata' | 'spec'>,
): boolean =>
  metadata.uid === shared.uid &&
  spec.owner === owner &&
  (spec.handovers ?? 0) === (shared.handovers ?? 0);

const digestLength = 40;

/** Name of the Share of a token. Every gateway finds the Share by it, without a cache. */
export const shareNameOf = (sha256: string): string => `share-${sha256.slice(0, digestLength)}`;
