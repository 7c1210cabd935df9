// Loaded by `node --import` into the processes that a test starts: they run the product with the
// mistake as well.
import { mutateSource } from '../simulation/mutants/mutated-source.ts';
import { wantedMutation } from './mutation.ts';

mutateSource(wantedMutation(process.env));
