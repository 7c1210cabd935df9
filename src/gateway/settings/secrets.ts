import type { SettingsStore } from '../lookup/settings-store.ts';
import type { Clock } from '@conversation-operator/base/clock';
import type { Sealing } from '../../agent/sealing.ts';
import { z } from 'zod';
import {
  maxDescriptionLength,
  maxSealedTotal,
  maxSecrets,
  type OwnerSecret,
  type OwnerSettingsSpec,
} from '../../resources/owner-settings.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound } from '../errors/common-problems.ts';
import { invalidField } from '../errors/validation.ts';
import { endpoints, success, successSchema, type Route } from '../http/route.ts';
import { unreadable } from '../lookup/secret-reader.ts';
import { searchPage, sortedBy } from '../paging/keyset.ts';
import { nullableText, pageSchema } from '../presenters/schemas.ts';
import { paging, shownText, secretNameField, secretValue } from '../http/fields.ts';

const base = '/api/v1/secrets';
const { get, post, put, remove } = endpoints('secrets');

const secretSchema = z.object({ name: z.string(), description: nullableText });
export type SecretRecord = z.output<typeof secretSchema>;
const secretPage = pageSchema(secretSchema);

const description = shownText(maxDescriptionLength).nullish();
const newSecretSchema = z.strictObject({
  name: secretNameField(),
  value: secretValue().describe('No answer ever shows it.'),
  description,
});
const changeSchema = z.strictObject({
  name: secretNameField(),
  description: description.describe('Absent: it stays as it is; null or empty: there is none.'),
  value: secretValue().nullish().describe('Absent: the value stays as it is.'),
});

const present = ({ name, description: text }: OwnerSecret): z.output<typeof secretSchema> => ({
  name,
  description: text ?? null,
});

/** Throws 422 if the encrypted texts of an owner would exceed `maxSealedTotal`. */
export function refuseTooLarge(settings: OwnerSettingsSpec, path: string): OwnerSettingsSpec {
  const texts = [...(settings.secrets ?? []), ...(settings.mcpServers ?? [])];
  const total = texts.reduce((sum, { sealed = '' }) => sum + sealed.length, 0);
  if (total <= maxSealedTotal) return settings;
  throw invalidField(
    path,
    `must leave the secrets of an owner at no more than ${maxSealedTotal} bytes in total, sealed`,
  );
}

/** Secrets of owners. Clients write their values, and only agents read them. */
export function secretRoutes({
  settings,
  sealing,
  clock,
}: {
  readonly settings: SettingsStore;
  readonly sealing: Sealing;
  readonly clock: Clock;
}): readonly Route[] {
  const sealed = (owner: string, name: string, value: string) => ({
    name,
    sealed: sealing.seal(value, { scope: 'secret', owner, name }),
    updatedTime: new Date(clock.now()).toISOString(),
  });
  /** A renamed secret is encrypted again: an encrypted text is bound to its name. */
  const renamed = (owner: string, secret: OwnerSecret, name: string): OwnerSecret => {
    if (secret.name === name) return secret;
    const value = sealing.open(secret.sealed, { scope: 'secret', owner, name: secret.name });
    if (value === undefined) throw unreadable(secret.name);
    return { ...secret, ...sealed(owner, name, value), updatedTime: secret.updatedTime };
  };
  return [
    get(`${base}/search`, 'searchSecrets', {
      summary: 'Your secrets, by name, without their values',
      query: z.object(paging),
      responses: { 200: secretPage },
      handle: ({ owner, query: { limit, page_id } }) => {
        const all = (settings.of(owner).secrets ?? []).map(present);
        const sorted = sortedBy(all, ({ name }) => ({ key: name, id: name }));
        return {
          json: searchPage(sorted, { order: 'secrets', descending: false, limit, page_id }),
        };
      },
    }),
    post(base, 'createSecret', {
      scope: 'secrets',
      summary: 'Store a secret for your agents, or replace the value of the one with this name',
      body: newSecretSchema,
      responses: { 200: secretSchema, 201: secretSchema },
      problems: ['conflict'],
      handle: async ({ owner, body, about }) => {
        about(`secret/${body.name}`);
        const value = sealed(owner, body.name, body.value);
        const outcome = { isNew: true };
        const written = await settings.change(owner, (stored) => {
          const { secrets = [] } = stored;
          const known = secrets.find(({ name }) => name === body.name);
          const others = secrets.filter((each) => each !== known);
          outcome.isNew = known === undefined;
          if (others.length >= maxSecrets)
            throw invalidField('body.name', `must be one of at most ${maxSecrets} secrets`);
          const text = body.description === undefined ? known?.description : body.description;
          const secret = { ...value, ...described(text) };
          return refuseTooLarge({ ...stored, secrets: [...others, secret] }, 'body.value');
        });
        const stored = written.secrets?.find(({ name }) => name === body.name);
        if (stored === undefined) throw notFound('secret');
        return { status: outcome.isNew ? 201 : 200, json: present(stored) };
      },
    }),
    put(`${base}/{name}`, 'updateSecret', {
      scope: 'secrets',
      summary: 'Rename or describe a secret, or replace its value',
      params: z.object({ name: z.string() }),
      body: changeSchema,
      responses: { 200: secretSchema },
      problems: ['not-found', 'secret-exists', 'secret-unreadable', 'conflict'],
      handle: async ({ owner, params, body, about }) => {
        about(`secret/${params.name}`);
        const written = await settings.change(owner, (stored) => {
          const { secrets = [] } = stored;
          const known = secrets.find(({ name }) => name === params.name);
          if (known === undefined) throw notFound('secret');
          if (body.name !== params.name) refuseTaken(secrets, body.name);
          const { description: before, ...rest } = known;
          const text = body.description === undefined ? before : body.description;
          const secret =
            typeof body.value === 'string'
              ? sealed(owner, body.name, body.value)
              : renamed(owner, rest, body.name);
          const next = secrets.map((each) =>
            each === known ? { ...secret, ...described(text) } : each,
          );
          return refuseTooLarge({ ...stored, secrets: next }, 'body.value');
        });
        const changed = written.secrets?.find(({ name }) => name === body.name);
        if (changed === undefined) throw notFound('secret');
        return { json: present(changed) };
      },
    }),
    remove(`${base}/{name}`, 'deleteSecret', {
      scope: 'secrets',
      summary: 'Delete a secret. Agents that have read it may keep it',
      params: z.object({ name: z.string() }),
      responses: { 200: successSchema },
      problems: ['not-found', 'conflict'],
      handle: async ({ owner, params, about }) => {
        about(`secret/${params.name}`);
        await settings.change(owner, (stored) => {
          const { secrets = [] } = stored;
          const others = secrets.filter(({ name }) => name !== params.name);
          if (others.length === secrets.length) throw notFound('secret');
          return { ...stored, secrets: others };
        });
        return success;
      },
    }),
  ];
}

const described = (text: string | null | undefined) =>
  text === undefined || text === null || text === '' ? {} : { description: text };

function refuseTaken(secrets: readonly OwnerSecret[], name: string): void {
  if (!secrets.some((each) => each.name === name)) return;
  throw new ProblemError('secret-exists', `There is a secret ${name} already.`);
}
