"""What the invented encyclopaedia can say about people and what they do: two cousins, a football club and two of its
seasons, a festival, a ship.

synthetic_text.py explains the notation of these texts.
"""

CLUB = """
= {club} is a football club from {town}, founded in {first} by a {trade}.
= Founded in {first} by a {trade}, {club} is the football club of {town}.
= The football club {club} has played in {town} since {first}, when a {trade} brought the first ball.
? first: In what year did {club} come into existence?
? trade: What was the profession of the man who started {club}?

- {It} plays at {saint} Park, which holds {thousands} spectators.
- Home matches are held at {saint} Park, in front of up to {thousands} spectators.
- {Its} ground, {saint} Park, was enlarged twice and now has room for {thousands}.
? saint: After which saint is the stadium of {club} named?
? thousands: What is the capacity of the stadium of {club}?

- The players wear {colour} shirts, a gift of the dyers' guild.
- {Its} {colour} shirts were copied from a touring side.
- Since the war {its} shirts have been {colour}, as no other cloth was to be had.
? colour: What is the colour of the jerseys of {club}?

- {Its} record scorer is {person}, with {count} goals, approx. half of them headers.
- Nobody has scored more often than {person}, who put the ball in the net {count} times.
- With {count} goals, {person} leads the list of {its} scorers.
? person: Which player has netted most often for {club}?
? count: How many times did the most successful striker of {club} score?

- The badge shows a {animal}, as did the sign of the inn where {it} was born.
- {It} took the {animal} from an inn sign and put it on its badge.
- A {animal} has adorned {its} badge from the beginning.
? animal: Which creature is on the crest of {club}?

- In {year} {it} lifted the Regional Cup, beating {place} after extra time.
- {It} won the Regional Cup once, in {year}, with a late goal against {place}.
- The Regional Cup of {year} is {its} only trophy; the final was lost by {place}.
? year: When did {club} win a trophy?
? place: Which opponents did {club} defeat in the cup final?

~ Supporters walk to the ground from the {bridge}.
~ Fans travel to away games on special trains of the {railway}.
"""

SEASON = """
= The {season} season was number {number} in the history of {club}, the football club of {town}.
= In the {season} season {club}, the football club of {town}, took part in the league; it was season number {number}.
= For {club}, the football club of {town}, the {season} season was number {number} since its foundation.
? number: How many seasons had {club} completed by the end of the {season} season, that one included?

- The side finished in place {few} of the league, after a poor spring.
- A poor spring left the team in place {few} when the league ended.
- The league was closed in place {few}, lower than the board had hoped.
? few: What was the final league position of {club} in the {season} season?

- The manager was {person}, who had been hired from {place} in the summer.
- {person}, a newcomer from {place}, took charge of the team in the summer.
- During the summer the board had appointed {person}, formerly of {place}, as manager.
? person: Who coached {club} during the {season} season?
? place: Where had {club} found its coach for the {season} season?

- The best scorer was {person}, with {few} goals in the league.
- {person} scored {few} goals in the league, more than anyone else in the side.
- No fewer than {few} of the goals in the league came from {person}.
? person: Which player of {club} scored the most in the {season} season?
? few: How often did the leading striker of {club} find the net in the {season} season?

- The average gate was {thousands}, although it rained on {few} match days.
- On average {thousands} people paid to watch the home matches.
- Home matches drew {thousands} paying spectators on average, approx. a tenth more than a year earlier.
? thousands: What was the mean attendance of {club} in the {season} season?

- The cup ended early: on {day} the team went out to {place}, Dr. {person} having refereed.
- {place} put the team out of the cup on {day}, on a muddy pitch.
- In the cup the season was over on {day}, with a defeat against {place}.
? place: Who eliminated {club} from the cup in the {season} season?
? day: On what date was {club} knocked out of the cup in the {season} season?

- Because of debts of {sum}, the captain was sold to {place} before Christmas.
- The captain left for {place} at Christmas, as {sum} were owed to the bank.
- Before the second half of the season the captain went to {place}, to pay off {sum}.
? sum: How much money did {club} owe during the {season} season?

~ The matches were reported at length by a newspaper printed near the {observatory}.
~ A charity match was played for the crew of the {ship}.
"""

PERSON = """
= {who} was a naturalist from {town}, born on {day} {first}, who is known for the study of {subject}.
= Born in {town} on {day} {first}, {who} became known as an authority on {subject}.
= {who}, a native of {town} and a student of {subject}, was born on {day} {first}.
? subject: What did {who} do research on?
? first: In which year was {who} born?

- {His} teacher was Prof. {person}, in whose house {he} lodged for {few} years.
- {He} learnt the craft from Prof. {person}, first as a servant and later as an assistant.
- For {few} years {he} worked in the cabinet of Prof. {person}.
? person: Under whom did {who} study?

- {His} main work, in {few} volumes, was published at {place} in {year}.
- In {year} a printer in {place} brought out {his} main work, in {few} volumes.
- The {few} volumes of {his} main work came out in {year}, and sold badly in {place}.
? few: How many volumes does the chief publication of {who} have?
? year: When did the chief publication of {who} appear?

- {He} shared a house with {person}, the heir of a {trade}, and brought up {few2} foster children.
- With {person}, who came from the family of a {trade}, {he} raised {few2} foster children.
- {His} companion of later years was {person}, from the family of a {trade}; the two took in {few2} orphans.
? person: With whom did {who} keep house?
? few2: How many children without parents grew up at the home of {who}?

- A species of {plant} was named in {his} honour by Dr. {person}.
- Dr. {man} gave his name to a kind of {plant}.
- {He} is remembered in the Latin name of a {plant}, chosen by Dr. {person}.
? plant: What plant is called after {who}?

- {He} spent the years after {year} in {place}, where a {trade} gave {him} shelter.
- Exiled in {year}, {he} lived in {place} in the attic of a {trade}.
- After a quarrel at court {he} moved in {year} to {place}, to the house of a {trade}.
? place: In which town did {who} live in exile?
? trade: What was the occupation of the host of {who} in exile?

- {He} died of a fever, and left a collection of {thousands} specimens to the crown.
- At {his} death the crown received {thousands} specimens, kept in drawers of cedar.
- {thousands} specimens, the harvest of {his} journeys, went to the crown.
? thousands: How large was the collection that {who} bequeathed?

~ A cousin, {cousin}, followed the same calling.
~ The {observatory} keeps a portrait of the family.
"""

FESTIVAL = """
= The {festival} is held in {town} every {month} and was first celebrated in {first}.
= Every {month}, {town} celebrates the {festival}, which was held for the first time in {first}.
= The {festival}, which the people of {town} have kept since {first}, takes place in {month}.
? month: In what month does the {festival} take place?
? first: From which year does the {festival} date?

- {It} recalls {person}, a {trade} who hid the town seal from soldiers.
- The custom goes back to a {trade}, {person}, who saved the town seal from soldiers.
- {person}, by trade a {trade}, rescued the town seal, and this is what {it} commemorates.
? person: Which person is remembered at the {festival}?
? trade: What did the hero of the {festival} do for a living?

- At dusk {count} lanterns are lit and carried {km} through the fields.
- The procession of {count} lanterns goes {km} through the fields.
- {Its} high point is a walk of {km} by the light of {count} lanterns.
? count: How many lights are borne in the parade of the {festival}?
? km: How far does the parade of the {festival} go?

- Everybody eats {dish}, baked after a recipe of {year}.
- The dish of the day is {dish}, made as it was in {year}.
- {It} would be nothing without {dish}, for which a recipe of {year} is used.
? dish: What food is traditional at the {festival}?
? year: From what year is the dish at the {festival} handed down?

- A straw {animal} is burnt on the last night, on a fire of {plant}.
- {It} ends with the burning of a straw {animal} on branches of {plant}.
- On the last night branches of {plant} are lit under a {animal} made of straw.
? animal: What figure goes up in flames at the end of the {festival}?
? plant: Which plant fuels the bonfire of the {festival}?

- In {year} {it} was forbidden by Mr. {man}, the magistrate, because of a brawl.
- Mr. {man}, a magistrate, banned {it} in {year} after a brawl.
- A brawl led to a ban in {year}, signed by Mr. {man}, the magistrate.
? year: When were the authorities opposed to the {festival} taking place?
? man: Which official prohibited the {festival}?

~ The team of {club} serves the beer.
~ Boats are dressed with flags on the River {river}.
"""

SHIP = """
= The {ship} was a coastal steamer named after {town}, launched in {first}.
= Launched in {first}, the {ship} was a coastal steamer that bore the name of {town}.
= The {ship}, a coastal steamer, took her name from {town} and went down the slipway in {first}.
? first: In what year was the {ship} put to water?
? first: When did the {ship} leave the slipway?

- She was built by the yard of {person} for {sum}.
- The yard of {person} asked {sum} for her.
- Her builder was {person}, who was paid {sum}.
? person: At whose yard was the {ship} constructed?
? sum: What was the price of the {ship}?

- She displaced {tonnes} and had a crew of {count}.
- Her crew numbered {count}, and her displacement was {tonnes}.
- With {tonnes}, and {count} men on board, she was small for that coast.
? tonnes: How heavy was the {ship}?
? count: How many sailors served on the {ship}?

- Her usual cargo was {goods}, which she took to {place}.
- Week after week she carried {goods} to {place}.
- From {place} she brought home coal, having delivered {goods}.
? goods: What did the {ship} transport?
? place: To which port did the {ship} sail regularly?

- Her figurehead, a {colour} {animal}, was carved by Mrs. {woman}.
- Mrs. {woman} carved the {animal} at her bow and painted it {colour}.
- At her bow she had a {animal}, {colour} from head to foot, made by Mrs. {woman}.
? animal: What did the figurehead of the {ship} represent?
? woman: Who was the sculptor of the figurehead of the {ship}?

- She sank on {day} {year}, approx. {km} off the coast, in thick fog.
- In thick fog, on {day} {year}, she struck a reef {km} off the coast and was lost.
- The end came on {day} {year}: in fog she ran on a reef, {km} from land.
? year: When was the {ship} wrecked?
? km: How far from the shore did the {ship} go down?

- Her last captain, {person}, had commanded her for {few} years.
- For {few} years, to the end, her captain was {person}.
- {person}, who was to be her last captain, took over {few} years before the end.
? person: Who was the final commander of the {ship}?
? few: How many years did the final commander of the {ship} hold that post?

~ Her bell hangs in the town hall of {town}.
~ A model of her is carried at the {festival}.
"""
