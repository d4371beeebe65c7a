// Who is asking. Every page narrows its requests to `user`, also where the key would let it see more.
import { get, apiPath } from "./api.js";
import { keep, kept } from "./kept.js";
import { createContext, useContext } from "./view.js";

const Session = createContext(null);
export const SessionProvider = Session.Provider;

/** `{space, user, chooses}`: `chooses` says that the key belongs to no single user, so that one can be picked. */
export const useSession = () => useContext(Session);

/** Raises an ApiError of status 401 where a key is wanted. */
export async function readSession() {
  const { space, user_id: bound, default_user: usual } = await get(apiPath("whoami"));
  return { space, user: bound ?? kept("user") ?? usual, chooses: bound === null };
}

export const chooseUser = (user) => keep("user", user || null);
export const keepKey = (key) => keep("key", key || null);
