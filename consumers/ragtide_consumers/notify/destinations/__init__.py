"""Destinations of notifications: the services and people to whom alerts are sent.

Settings of each kind, besides `name`, `kind`, `match` and `on`. A secret is a `SecretStr`; so is `url`, because the
address of an incoming webhook is a secret.

    webhook       url; secret (`whsec_<base64>`, optional: signs the request); token (optional: sent as a bearer token)
    alertmanager  url (the root, such as http://alertmanager:9093); token (optional bearer token),
                  or user and password (optional basic authentication)
    pagerduty     token (the integration key); url (optional: https://events.eu.pagerduty.com/v2/enqueue in the EU)
    slack         url (an incoming webhook), or token (of a bot, `xoxb-...`) with channel
    teams         url (of a workflow)
    email         host, port (optional: by tls), user and password (optional), sender, to (a list),
                  tls (`starttls`, the default; `tls`; `none`)
    apprise       url (such as `ntfys://...`)
"""
