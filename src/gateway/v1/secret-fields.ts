import { z } from 'zod';
import { maxSecretBytes, secretName } from '../../resources/owner-settings.ts';

/** A value as an environment variable can have it. No message repeats the value. */
export const secretValue = () =>
  z
    .string()
    .min(1, 'must not be empty')
    .refine((text) => Buffer.byteLength(text) <= maxSecretBytes, {
      error: `must have at most ${maxSecretBytes} bytes`,
      abort: true,
    })
    .refine((text) => text.isWellFormed(), 'must not have halves of surrogate pairs')
    .refine((text) => !text.includes('\0'), 'must not have NUL characters');

export const secretNameField = () =>
  secretName().describe('Letters, digits and underscores, without a digit at its begin.');
